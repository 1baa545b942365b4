// SPDX-License-Identifier: Apache-2.0
//! `aws = { service = "s3", action = ["read", "PutObject"] }`: which actions at which service.

use crate::document::DocumentError;
use crate::document::fields::{Fields, Value, fail, some_of, text, word};
use crate::facts::{AwsPattern, AwsProtocol};
use crate::grant::AwsGrant;
use crate::names::Host;

/// Services by their signing name, and how each is told what to do. Others speak in paths that
/// nobody has listed here.
const SERVICES: [(&str, AwsProtocol); 24] = [
    ("s3", AwsProtocol::S3Path),
    ("athena", AwsProtocol::Json),
    ("dynamodb", AwsProtocol::Json),
    ("ecr", AwsProtocol::Json),
    ("ecs", AwsProtocol::Json),
    ("events", AwsProtocol::Json),
    ("firehose", AwsProtocol::Json),
    ("glue", AwsProtocol::Json),
    ("kinesis", AwsProtocol::Json),
    ("kms", AwsProtocol::Json),
    ("logs", AwsProtocol::Json),
    ("secretsmanager", AwsProtocol::Json),
    ("sqs", AwsProtocol::Json),
    ("ssm", AwsProtocol::Json),
    ("states", AwsProtocol::Json),
    ("autoscaling", AwsProtocol::Query),
    ("cloudformation", AwsProtocol::Query),
    ("ec2", AwsProtocol::Query),
    ("elasticloadbalancing", AwsProtocol::Query),
    ("iam", AwsProtocol::Query),
    ("monitoring", AwsProtocol::Query),
    ("rds", AwsProtocol::Query),
    ("sns", AwsProtocol::Query),
    ("sts", AwsProtocol::Query),
];

pub(super) fn read(value: &Value<'_>, host: Option<&Value<'_>>) -> Result<AwsGrant, DocumentError> {
    let fields = Fields::of(value, &["service", "action", "bucket"])?;
    let named = fields.require("service")?;
    let service = text(named)?.to_owned();
    let mut protocol = word(named, &SERVICES)?;
    let place = fields.get("bucket");
    if let Some(place) = place.filter(|_| protocol != AwsProtocol::S3Path) {
        return fail(place.span(), "`bucket` belongs to the service s3");
    }
    if protocol == AwsProtocol::S3Path {
        protocol = match (place, host.map(text).transpose()?.and_then(known_style)) {
            (Some(place), _) => word(
                place,
                &[("path", AwsProtocol::S3Path), ("host", AwsProtocol::S3Host)],
            )?,
            (None, Some(known)) => known,
            (None, None) => {
                return fail(
                    value.span(),
                    "say where this host has the bucket: bucket = \"path\" (host/bucket/key) or \
                     bucket = \"host\" (bucket.host/key)",
                );
            }
        };
    }
    let listed = fields.require("action")?;
    let actions = some_of(listed, |item| match AwsPattern::parse(text(item)?) {
        Some(AwsPattern::Write) if matches!(service.as_str(), "iam" | "sts") => fail(
            item.span(),
            "what is changed there is authority: name each action",
        ),
        Some(pattern) => Ok(pattern),
        None => fail(
            item.span(),
            "name an action as in \"GetObject\", or all that \"read\" or \"write\"",
        ),
    })?;
    Ok(AwsGrant {
        service,
        protocol,
        actions,
    })
}

/// The hosts of AWS say it themselves: `s3.REGION.amazonaws.com` and `BUCKET.s3.REGION.….com`.
fn known_style(host: &str) -> Option<AwsProtocol> {
    let host = host
        .strip_prefix("*.")
        .map_or_else(|| host.to_owned(), |rest| format!("x.{rest}"));
    let host = Host::parse(&host).ok()?;
    let front = host.name()?.strip_suffix(".amazonaws.com")?;
    let labels: Vec<&str> = front.split('.').collect();
    match labels.as_slice() {
        ["s3"] | ["s3", _] => Some(AwsProtocol::S3Path),
        [.., "s3"] | [.., "s3", _] => Some(AwsProtocol::S3Host),
        _ => None,
    }
}
