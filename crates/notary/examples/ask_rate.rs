// SPDX-License-Identifier: Apache-2.0
//! Answers a second, every one with a credential and its two records on disk: alone, and 64 at once.

use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use torno_audit::SigningKey;
use torno_notary::{Config, GateId, Notary, Now};
use torno_notary_protocol::desk::{Begin, Choice, DeskMessage, DeskReply};
use torno_notary_protocol::gate::{GateMessage, Question, Ticket};
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest, UnsealKind};
use torno_notary_protocol::receipt::ReceiptKey;
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::{Answers, Binding, Mode, PathPattern, Slot};
use torno_policy::document::digest;
use torno_policy::facts::{Entry, RequestFacts};
use torno_policy::grant::Isolation;
use torno_policy::names::{
    BindingId, CredentialName, Endpoint, Generation, Host, Method, Port, RequestPath, Scheme,
    SessionId, TenantName,
};
use torno_policy::organisation::Organisation;
use torno_vault::SystemEntropy;
use zeroize::Zeroizing;

const NOW: Now = Now {
    unix_ms: 1_000_000,
    boot_ms: 5_000,
};
const DOCUMENT: &str =
    "[sandbox]\nlimits = { records = 1000000 }\n[secret.token]\nenv = \"TOKEN\"\n";

fn main() -> Result<(), Box<dyn Error>> {
    let root = tempfile::tempdir_in(".")?;
    let record = root.path().join("record");
    std::fs::create_dir(&record)?;
    std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o700))?;
    let config = Config {
        store: root.path().join("notary.db"),
        record,
        signing_key: SigningKey::from_seed(&[1; 32]),
        receipt_key: ReceiptKey::new([2; 32]),
        tenant: TenantName::parse("local")?,
        organisation: Organisation::shipped(),
        software: "ask_rate".to_owned(),
        entropy: Box::new(SystemEntropy),
    };
    let mut notary = Notary::open(config, NOW)?;
    prepare(&mut notary)?;
    for batch in [1, 64] {
        let began = Instant::now();
        let mut answered = 0;
        while began.elapsed() < Duration::from_secs(2) {
            let questions = (0..batch).map(question).collect::<Result<_, _>>()?;
            let mut frames = notary.from_gates(vec![(GateId(1), GateMessage::Ask(questions))], NOW);
            while let Some(flush) = notary.flush() {
                frames.extend(notary.flushed(flush.run()));
            }
            answered += frames
                .iter()
                .map(|frame| frame.credentials.len())
                .sum::<usize>();
        }
        let rate = u64::try_from(answered)? * 1000 / u64::try_from(began.elapsed().as_millis())?;
        println!("batch {batch}: {rate} credentialed answers a second");
    }
    Ok(())
}

fn question(ticket: u64) -> Result<Question, Box<dyn Error>> {
    Ok(Question {
        ticket: Ticket(ticket),
        facts: RequestFacts {
            entry: Entry::Captured,
            endpoint: endpoint()?,
            method: Method::parse("GET").ok_or("method")?,
            path: RequestPath::parse("/v1/items?page=2")?,
            websocket: false,
            presented: vec![],
            own_credentials: vec![],
            git: None,
            content: None,
            body: None,
        },
        pooled: true,
        serves: CredentialName::parse("token").ok(),
        watch: 0,
    })
}

fn endpoint() -> Result<Endpoint, Box<dyn Error>> {
    Ok(Endpoint {
        scheme: Scheme::Https,
        host: Host::parse("allow.test")?,
        port: Port::HTTPS,
    })
}

fn prepare(notary: &mut Notary) -> Result<(), Box<dyn Error>> {
    let name = CredentialName::parse("token")?;
    let binding = Binding {
        id: BindingId::parse("b1")?,
        tenant: TenantName::parse("local")?,
        credential: name.clone(),
        endpoint: endpoint()?,
        plaintext: false,
        methods: vec![Method::parse("GET").ok_or("method")?],
        paths: vec![PathPattern::parse("/v1/**")?],
        denied: Vec::new(),
        answers: Answers::default(),
        slot: Slot::Header {
            name: "authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        },
        mode: Mode::Inject,
        expires_at: None,
        revision: 0,
    };
    let init = OperatorRequest::Init {
        unseal: UnsealKind::KeyFile,
    };
    let shape = String::new();
    operate(notary, init, Some(&[7; 32]))?;
    operate(
        notary,
        OperatorRequest::Put { name, shape },
        Some(b"token-0123456789"),
    )?;
    operate(notary, OperatorRequest::Bind(Box::new(binding)), None)?;
    let digest = data_encoding::HEXLOWER.encode(&digest(DOCUMENT).0);
    operate(notary, OperatorRequest::Accept { digest }, None)?;
    let begin = Begin {
        ticket: Ticket(0),
        session: SessionId::parse("s1")?,
        tenant: TenantName::parse("local")?,
        document: DOCUMENT.to_owned(),
        choice: Choice::default(),
        effective_isolation: Isolation::Gvisor,
        emulated: false,
        guarantees: vec![],
        image: None,
    };
    let begun = notary.desk(DeskMessage::Begin(Box::new(begin)), NOW).reply;
    if !matches!(begun, Some(DeskReply::Begun(_))) {
        return Err(format!("{begun:?}").into());
    }
    notary.gate_joined(GateId(1), SessionId::parse("s1")?, Generation(1));
    Ok(())
}

fn operate(
    notary: &mut Notary,
    request: OperatorRequest,
    secret: Option<&[u8]>,
) -> Result<(), Box<dyn Error>> {
    let attached = secret.map(|s| CredentialInTransit::new(Zeroizing::new(s.to_vec())));
    let attached: Vec<_> = attached.into_iter().collect();
    match notary.operator(request, &attached, NOW).reply {
        Some(OperatorReply::Done) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}
