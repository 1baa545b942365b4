// SPDX-License-Identifier: Apache-2.0
//! `[[allow]]`: where requests may go.

use super::fields::{Fields, Value, fail, list, some_of, text, whole, word};
use super::{DocumentError, Presets, dialects};
use crate::binding::PathPattern;
use crate::grant::{AllowRule, Dialect, HostPattern};
use crate::names::{Host, Method, Port, PresetName, RuleName, Scheme};
use crate::standing::Phase;

const KEYS: [&str; 15] = [
    "host",
    "port",
    "scheme",
    "methods",
    "paths",
    "own_credentials",
    "websocket",
    "registry",
    "operations",
    "under",
    "graphql",
    "jsonrpc",
    "aws",
    "preset",
    "transcripts",
];

/// Rules of the locked phase.
pub(super) fn read(
    value: Option<&Value<'_>>,
    name: &str,
    presets: &Presets,
) -> Result<Vec<AllowRule>, DocumentError> {
    read_for(value, name, presets, Phase::Locked)
}

pub(super) fn read_for(
    value: Option<&Value<'_>>,
    name: &str,
    presets: &Presets,
    phase: Phase,
) -> Result<Vec<AllowRule>, DocumentError> {
    let mut rules = Vec::new();
    let Some(value) = value else {
        return Ok(rules);
    };
    for (at, item) in list(value)?.into_iter().enumerate() {
        let fields = Fields::of(item, &KEYS)?;
        if let Some(preset) = fields.get("preset") {
            rules.extend(from_preset(&fields, preset, presets, phase)?);
        } else {
            rules.push(rule(
                &fields,
                RuleName::new(format!("{name}[{at}]")),
                phase,
            )?);
        }
    }
    Ok(rules)
}

fn rule(fields: &Fields<'_, '_>, name: RuleName, phase: Phase) -> Result<AllowRule, DocumentError> {
    let host = host_pattern(fields.require("host")?)?;
    let scheme = match fields.get("scheme") {
        Some(value) => word(value, &[("https", Scheme::Https), ("http", Scheme::Http)])?,
        None => Scheme::Https,
    };
    let port = match fields.get("port") {
        Some(value) => port(value)?,
        None => scheme.default_port(),
    };
    let (dialect, methods, paths) = dialects::read(fields)?;
    let own_credentials = fields.flag("own_credentials")?;
    if let (true, HostPattern::OneLabel(_), Some(flag)) =
        (own_credentials, &host, fields.get("own_credentials"))
    {
        return fail(
            flag.span(),
            "a wildcard host carries no credential; name the exact host",
        );
    }
    let websocket = websocket(fields, &dialect, &methods)?;
    let transcripts = fields.flag("transcripts")?;
    if let (true, HostPattern::OneLabel(_), Some(flag)) =
        (transcripts, &host, fields.get("transcripts"))
    {
        return fail(
            flag.span(),
            "transcripts go to one host; name the exact one that runs the model",
        );
    }
    Ok(AllowRule {
        name,
        host,
        scheme,
        port,
        methods,
        paths,
        own_credentials,
        websocket,
        phase,
        dialect,
        transcripts,
    })
}

/// Whether the rule opens WebSockets.
fn websocket(
    fields: &Fields<'_, '_>,
    dialect: &Dialect,
    methods: &[Method],
) -> Result<bool, DocumentError> {
    let websocket = fields.flag("websocket")?;
    let Some(flag) = fields.get("websocket").filter(|_| websocket) else {
        return Ok(false);
    };
    // ATTACK: 063 – beside it, what the rule judges would be said unjudged.
    if *dialect != Dialect::Plain {
        return fail(
            flag.span(),
            "what is said over a WebSocket is not judged; leave `websocket` out here",
        );
    }
    if !methods.iter().any(|method| method.as_str() == "GET") {
        return fail(
            flag.span(),
            "a WebSocket is opened with GET; add it to the methods",
        );
    }
    Ok(true)
}

fn from_preset(
    fields: &Fields<'_, '_>,
    preset: &Value<'_>,
    presets: &Presets,
    phase: Phase,
) -> Result<Vec<AllowRule>, DocumentError> {
    if let Some(other) = KEYS
        .iter()
        .filter(|key| **key != "preset")
        .find_map(|key| fields.get(key))
    {
        return fail(
            other.span(),
            "a preset stands alone; give this host a rule of its own",
        );
    }
    let name = match PresetName::parse(text(preset)?) {
        Ok(name) => name,
        Err(error) => return fail(preset.span(), error.to_string()),
    };
    match presets.rules(&name, phase) {
        Some(rules) => Ok(rules),
        None => fail(
            preset.span(),
            format!(
                "preset `{name}` is not confirmed on this machine; \
                 `torno preset learn {name} -- CMD…`"
            ),
        ),
    }
}

// ATTACK: 012
pub(super) fn host_pattern(value: &Value<'_>) -> Result<HostPattern, DocumentError> {
    let given = text(value)?;
    if given == "any" {
        return fail(value.span(), "`any` is not available; name each host");
    }
    if !given.contains('*') {
        return Ok(HostPattern::Exact(host(value, given)?));
    }
    let Some(suffix) = given
        .strip_prefix("*.")
        .filter(|suffix| !suffix.contains('*'))
    else {
        let rule = "`*` stands for one whole label at the front, as in `*.example.org`";
        return fail(value.span(), rule);
    };
    let suffix = host(value, suffix)?;
    let Some(name) = suffix.name() else {
        return fail(
            value.span(),
            "an address has no wildcard; name each address",
        );
    };
    // A suffix under which anyone can register would let anyone be the host.
    if psl::domain_str(name).is_none() {
        return fail(
            value.span(),
            "this wildcard spans a public suffix; name the domain below it",
        );
    }
    Ok(HostPattern::OneLabel(suffix))
}

/// A host in its one spelling: a document is written by a person, who can be told.
fn host(value: &Value<'_>, text: &str) -> Result<Host, DocumentError> {
    let host = match Host::parse(text) {
        Ok(host) => host,
        Err(error) => return fail(value.span(), error.to_string()),
    };
    if host.to_string() != text {
        return fail(value.span(), format!("write it as `{host}`"));
    }
    if host.is_metadata() {
        let rule = "a metadata service hands out the host's credentials; it can't be granted";
        return fail(value.span(), rule);
    }
    Ok(host)
}

fn port(value: &Value<'_>) -> Result<Port, DocumentError> {
    let number = whole(value)?;
    match u16::try_from(number).ok().and_then(Port::new) {
        Some(port) => Ok(port),
        None => fail(value.span(), "a port is a number from 1 to 65535"),
    }
}

pub(super) fn methods(value: &Value<'_>) -> Result<Vec<Method>, DocumentError> {
    some_of(value, |item| match Method::parse(text(item)?) {
        Some(method) => Ok(method),
        None => fail(
            item.span(),
            "a method is a word in capitals, as in \"GET\"; CONNECT and TRACE are none",
        ),
    })
}

pub(super) fn paths(value: &Value<'_>) -> Result<Vec<PathPattern>, DocumentError> {
    some_of(value, |item| match PathPattern::parse(text(item)?) {
        Ok(pattern) => Ok(pattern),
        Err(error) => fail(item.span(), error.to_string()),
    })
}
