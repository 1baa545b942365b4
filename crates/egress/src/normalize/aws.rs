// SPDX-License-Identifier: Apache-2.0
//! Which actions of AWS a request asks for, in the protocol that a rule says its service speaks.
//! What is not known asks for none, which no rule has room for; what two servers could read in two
//! ways is refused.

mod s3;

use super::Request;
use super::target::percent_decoded;
use crate::head::{Framing, Repeated, list_members};
use crate::refuse::Fault;
use torno_policy::facts::{AwsAction, AwsCall, AwsProtocol, Location};

/// LIMIT: parameters of a form that are looked through; batches have some hundreds.
const PAIRS_MAX: usize = 4096;

/// Checks what the head says. True when there is a body to read.
pub(super) fn head(request: &Request, protocol: AwsProtocol) -> Result<bool, Fault> {
    let posted = request.facts.method.as_str() == "POST";
    match protocol {
        AwsProtocol::S3Path | AwsProtocol::S3Host => Ok(false),
        AwsProtocol::Json => {
            let plain = request.facts.path.to_string() == "/";
            let kinds: Vec<_> = request.head.values("content-type").collect();
            let is_json = matches!(
                kinds.as_slice(),
                [b"application/x-amz-json-1.0" | b"application/x-amz-json-1.1"]
            );
            if posted && plain && is_json {
                Ok(false)
            } else {
                Err(Fault::malformed(
                    "POST to `/`, without a query, as application/x-amz-json-1.0 or 1.1",
                ))
            }
        }
        AwsProtocol::Query if posted => {
            let kind = "application/x-www-form-urlencoded";
            let codings = list_members(request.head.values("content-encoding"));
            let mut kinds = request.head.values("content-type");
            let first = kinds.next().unwrap_or_default().to_ascii_lowercase();
            let is_form = kinds.next().is_none() && first.starts_with(kind.as_bytes());
            let targets = request.head.values("x-amz-target").count();
            let plain = request.facts.path.to_string() == "/";
            if !plain || !is_form || targets > 0 || codings.into_iter().count() > 0 {
                return Err(Fault::malformed(
                    "POST a form that is not encoded to `/`, without a query",
                ));
            }
            Ok(request.framing != Framing::Empty)
        }
        AwsProtocol::Query => {
            let is_get = request.facts.method.as_str() == "GET";
            if is_get && request.facts.path.path() == "/" && request.framing == Framing::Empty {
                Ok(false)
            } else {
                Err(Fault::malformed(
                    "GET `/?Action=…` without a body, or POST a form to `/`",
                ))
            }
        }
    }
}

/// Reads it. `body` is whole; empty for a request without.
pub(super) fn read(
    request: &Request,
    protocol: AwsProtocol,
    body: &[u8],
) -> Result<AwsCall, Fault> {
    let names: Vec<String> = match protocol {
        AwsProtocol::S3Path | AwsProtocol::S3Host => s3::actions(request, protocol)
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        AwsProtocol::Json => vec![target(request)?],
        AwsProtocol::Query if request.facts.method.as_str() == "POST" => vec![form(body)?],
        AwsProtocol::Query => {
            vec![form(
                request.facts.path.query().unwrap_or_default().as_bytes(),
            )?]
        }
    };
    let actions = names.iter().map(|name| AwsAction::parse(name));
    let actions = actions.collect::<Option<Vec<_>>>();
    let fault = Fault::malformed("name one action of AWS, in letters and digits");
    Ok(AwsCall {
        protocol,
        actions: actions.ok_or(fault)?,
    })
}

/// `X-Amz-Target: DynamoDB_20120810.GetItem`
fn target(request: &Request) -> Result<String, Fault> {
    let fault = Fault::malformed("send one X-Amz-Target, as in `DynamoDB_20120810.GetItem`")
        .at(Location::Header("x-amz-target".to_owned()));
    let target = request.head.single("x-amz-target");
    let target = target
        .map_err(|Repeated| fault.clone())?
        .unwrap_or_default();
    let target = std::str::from_utf8(target).map_err(|_| fault.clone())?;
    match target.split_once('.') {
        Some((service, action)) if !service.is_empty() => Ok(action.to_owned()),
        Some(_) | None => Err(fault),
    }
}

/// The one `Action` of a form: a name that some server could take for it refuses the request.
pub(crate) fn form(text: &[u8]) -> Result<String, Fault> {
    let fault = Fault::malformed("send one `Action`, spelled so, in a form of at most 4096 pairs");
    let text = std::str::from_utf8(text).map_err(|_| fault.clone())?;
    let mut action = None;
    for (number, pair) in text.split('&').enumerate() {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let read = percent_decoded(&name.replace('+', " "));
        let alike = read.trim_ascii().eq_ignore_ascii_case(b"action");
        let is_other = alike && (name != "Action" || value.is_empty());
        let is_odd = number >= PAIRS_MAX || pair.contains(';') || is_other;
        if is_odd || (alike && action.replace(value.to_owned()).is_some()) {
            return Err(fault);
        }
    }
    action.ok_or(fault)
}

#[cfg(test)]
mod tests;
