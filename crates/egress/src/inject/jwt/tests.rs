// SPDX-License-Identifier: Apache-2.0
//! What is signed is what RFC 7515 signs (appendices A.1 to A.3), and a token says what the binding
//! claims and nothing else.

use super::*;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use torno_policy::binding::{Mode, Slot};
use torno_policy::names::{BindingId, CredentialName, Host, Port, Scheme};

const CLAIMED: &str = ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9p\
    c19yb290Ijp0cnVlfQ";
const RSA: [&[u8]; 2] = [
    include_bytes!("rfc7515_a2.pkcs8.pem"),
    include_bytes!("rfc7515_a2.pkcs1.pem"),
];
const P256: [&[u8]; 2] = [
    include_bytes!("rfc7515_a3.pkcs8.pem"),
    include_bytes!("rfc7515_a3.sec1.pem"),
];
const P256_PUBLIC: &str = "047fcdce2770f6c45d4183cbee6fdb4b7b580733357be9ef13bacf6e3c7bd15445c7f144\
    cd1bbd9b7e872cdfedb9eeb9f4b3695d6ea90b24ad8a4623288588e5ad";
const SECRET: &[u8] = b"a secret of the far end, 32 bytes";

fn encoded(algorithm: Algorithm, claimed: &str, key: &[u8]) -> String {
    BASE64URL_NOPAD.encode(&signature(algorithm, claimed.as_bytes(), key).unwrap())
}

fn verifies(claimed: &[u8], signature: &[u8]) -> bool {
    let public = data_encoding::HEXLOWER.decode(P256_PUBLIC.as_bytes());
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.unwrap());
    public.verify(claimed, signature).is_ok()
}

#[test]
fn the_examples_of_rfc_7515_come_out() {
    let key = BASE64URL_NOPAD
        .decode(
            b"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
        )
        .unwrap();
    let claimed = format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9{CLAIMED}");
    assert_eq!(
        encoded(Algorithm::HS256, &claimed, &key),
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    );
    let claimed = format!("eyJhbGciOiJSUzI1NiJ9{CLAIMED}");
    for key in RSA {
        assert_eq!(
            encoded(Algorithm::RS256, &claimed, key),
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt\
             _O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArL\
             IARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7no\
             OPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQ\
             Ge77Rw"
        );
    }
    // A signature of this kind is another each time: theirs and ours verify.
    let claimed = format!("eyJhbGciOiJFUzI1NiJ9{CLAIMED}");
    let theirs = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-K\
                  g6NU1Q";
    let theirs = BASE64URL_NOPAD.decode(theirs.as_bytes()).unwrap();
    assert!(verifies(claimed.as_bytes(), &theirs));
    for key in P256 {
        let ours = signature(Algorithm::ES256, claimed.as_bytes(), key).unwrap();
        assert!(verifies(claimed.as_bytes(), &ours));
        assert!(!verifies(b"other", &ours));
    }
}

#[test]
fn what_is_no_such_key_alone_and_unencrypted_signs_nothing() {
    let rsa = std::str::from_utf8(RSA[0]).unwrap();
    let wrong = [
        (
            Algorithm::RS256,
            String::from_utf8_lossy(P256[0]).into_owned(),
        ),
        (Algorithm::ES256, rsa.to_owned()),
        (Algorithm::RS256, rsa.repeat(2)),
        (Algorithm::RS256, format!("x{rsa}")),
        (
            Algorithm::RS256,
            rsa.replace("PRIVATE", "ENCRYPTED PRIVATE"),
        ),
        (
            Algorithm::RS256,
            rsa.replace("END PRIVATE", "END RSA PRIVATE"),
        ),
        (
            Algorithm::RS256,
            rsa.replace("-----\nMII", "-----\nProc-Type: 4,ENCRYPTED\n\nMII"),
        ),
        (Algorithm::RS256, rsa.replacen("\n", "\n ", 2)),
        (
            Algorithm::RS256,
            "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----".to_owned(),
        ),
        (Algorithm::RS256, String::new()),
        (
            Algorithm::HS256,
            "thirty-one bytes are too little".to_owned(),
        ),
    ];
    for (algorithm, key) in wrong {
        let refused = signature(algorithm, b"claimed", key.as_bytes()).unwrap_err();
        assert!(
            refused.hint.starts_with("the stored "),
            "{algorithm:?} {refused:?}"
        );
    }
    let windows = rsa.replace('\n', "\r\n");
    assert!(signature(Algorithm::RS256, b"claimed", windows.as_bytes()).is_ok());
}

fn jwt(algorithm: Algorithm) -> Jwt {
    Jwt {
        algorithm,
        issuer: "app-1".to_owned(),
        subject: Some("robot".to_owned()),
        audience: Some("https://far.test/".to_owned()),
        key_id: Some("k1".to_owned()),
        lifetime_seconds: 600,
    }
}

fn endpoint(host: &str) -> Endpoint {
    Endpoint {
        scheme: Scheme::Https,
        host: Host::parse(host).unwrap(),
        port: Port::HTTPS,
    }
}

fn token(jwt: &Jwt, now: u64, host: &str, released: &Released) -> String {
    let injection = Injection {
        binding: BindingId::parse("b1").unwrap(),
        credential: CredentialName::parse("c1").unwrap(),
        slot: Slot::Jwt(Box::new(jwt.clone())),
        mode: Mode::Placeholder,
        placeholder: "STANDS".to_owned(),
    };
    let claiming = Claiming::new(jwt, Duration::from_secs(now));
    let line = claiming.fields(SECRET, (&injection, &endpoint(host), released));
    let line = String::from_utf8(line.unwrap().to_vec()).unwrap();
    let token = line.strip_prefix("authorization: Bearer ").unwrap();
    token.strip_suffix("\r\n").unwrap().to_owned()
}

#[test]
fn a_token_claims_what_the_binding_says_and_nothing_else() {
    let token = token(
        &jwt(Algorithm::HS256),
        1_000_000,
        "far.test",
        &Released::default(),
    );
    let parts: Vec<_> = token.split('.').collect();
    let part = |at: usize| -> Value {
        serde_json::from_slice(&BASE64URL_NOPAD.decode(parts[at].as_bytes()).unwrap()).unwrap()
    };
    let header = serde_json::json!({"alg": "HS256", "typ": "JWT", "kid": "k1"});
    assert_eq!(part(0), header);
    let claims = serde_json::json!({
        "iss": "app-1", "sub": "robot", "aud": "https://far.test/",
        "iat": 999_970, "exp": 1_000_570,
    });
    assert_eq!(part(1), claims);
    let bare = Jwt {
        subject: None,
        audience: None,
        key_id: None,
        ..jwt(Algorithm::HS256)
    };
    let claiming = Claiming::new(&bare, Duration::from_secs(1_000_000));
    assert_eq!(
        claiming.header(),
        serde_json::json!({"alg": "HS256", "typ": "JWT"})
    );
    let claims = serde_json::json!({"iss": "app-1", "iat": 1, "exp": 601});
    assert_eq!(claiming.claims(1), claims);
}

#[test]
fn a_young_token_is_used_again_and_one_that_could_be_taken_is_searched_for() {
    // ATTACK: 099
    let released = Released::default();
    let jwt = jwt(Algorithm::HS256);
    let at = |now: u64| token(&jwt, now, "far.test", &released);
    let first = at(1_000_000);
    assert_eq!(at(1_000_269), first);
    let elsewhere = token(&jwt, 1_000_100, "other.test", &released);
    assert_ne!(elsewhere, first);
    let second = at(1_000_270);
    assert_ne!(second, first);
    let seen = |token: &str| {
        let mut out = Vec::new();
        let scrubber = released.scrubber();
        crate::scrub::scrub_whole(scrubber.as_ref(), token.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    };
    for token in [&first, &second, &elsewhere] {
        let (claimed, signature) = token.rsplit_once('.').unwrap();
        assert_eq!(seen(token), format!("{claimed}.STANDS"));
        assert_eq!(seen(signature), "STANDS");
        // What begins like every other token is left alone.
        assert_eq!(seen(claimed), claimed);
    }
    // A clock that goes back makes a new one, and one that nobody takes any more is forgotten.
    assert_ne!(at(999_000), first);
    for later in 0..200 {
        at(1_000_000 + 270 * later);
    }
    assert_eq!(seen(&first), first);
}
