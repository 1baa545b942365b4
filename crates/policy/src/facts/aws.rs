// SPDX-License-Identifier: Apache-2.0
//! What a request does at AWS, by the names that its documentation of permissions has.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a service is told what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwsProtocol {
    /// S3 by method, path and query; the bucket is the first segment of the path.
    S3Path,
    /// The same; the bucket is in the host.
    S3Host,
    /// `X-Amz-Target` names the action.
    Json,
    /// `Action=` in a form or the query names it.
    Query,
}

/// What was asked for: every action that the request needs; none when it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsCall {
    /// How it was said.
    pub protocol: AwsProtocol,
    /// The actions.
    pub actions: Vec<AwsAction>,
}

/// An action, as in `GetObject`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AwsAction(String);

/// LIMIT: 96 characters; the longest that is known has about 60.
const ACTION_BYTES_MAX: usize = 96;

/// Actions that hand out or make a credential, or leave authority behind: a rule has to name them,
/// whatever their first word says.
const NAMED_ALONE: [&str; 42] = [
    "AssumeRole",
    "AssumeRoleWithSAML",
    "AssumeRoleWithWebIdentity",
    "AssumeRoot",
    "BatchGetSecretValue",
    "BypassGovernanceRetention",
    "CopyObject",
    "CreateAccessKey",
    "CreateBucket",
    "CreateGrant",
    "CreateLoginProfile",
    "CreateServiceSpecificCredential",
    "CreateSession",
    "CreateToken",
    "DeleteBucket",
    "DescribeRouterConfiguration",
    "DescribeUserPoolClient",
    "DescribeVirtualInterfaces",
    "GetAuthorizationToken",
    "GetCredentialsForIdentity",
    "GetFederationToken",
    "GetInstanceAccessDetails",
    "GetOpenIdToken",
    "GetOpenIdTokenForDeveloperIdentity",
    "GetParameter",
    "GetParameterHistory",
    "GetParameters",
    "GetParametersByPath",
    "GetPasswordData",
    "GetRoleCredentials",
    "GetSecretValue",
    "GetSessionToken",
    "ListServiceSpecificCredentials",
    "PutBucketAcl",
    "PutBucketPolicy",
    "PutKeyPolicy",
    "PutObjectAcl",
    "PutResourcePolicy",
    "ResetServiceSpecificCredential",
    "UpdateLoginProfile",
    "UploadSSHPublicKey",
    "UploadSigningCertificate",
];

/// What the name of an action says that hands out a credential, in whatever case: services are
/// many, and new ones are in no table.
const HANDS_OUT: [&str; 11] = [
    "accesskey",
    "apikey",
    "connection",
    "credential",
    "keypair",
    "password",
    "presigned",
    "privatekey",
    "secret",
    "sshkey",
    "token",
];

/// What the name of one says that leaves rights or a way in behind, where it does not read.
const LEAVES_BEHIND: [&str; 26] = [
    "accessentry",
    "accesspoint",
    "acl",
    "activation",
    "attribute",
    "certificate",
    "delegat",
    "devendpoint",
    "executecommand",
    "federat",
    "functionurl",
    "grant",
    "identityprovider",
    "instanceprofile",
    "invit",
    "mfa",
    "permission",
    "policies",
    "policy",
    "principal",
    "replicatekey",
    "role",
    "sendcommand",
    "session",
    "share",
    "user",
];

/// First words of actions that read.
const READING: [&str; 9] = [
    "BatchGet", "Describe", "Get", "Head", "List", "Lookup", "Query", "Scan", "Search",
];

impl AwsAction {
    /// An upper-case letter, then letters and digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric();
        let starts = text.bytes().next().is_some_and(|b| b.is_ascii_uppercase());
        let fits = starts && text.len() <= ACTION_BYTES_MAX && text.bytes().all(known);
        fits.then(|| Self(text.to_owned()))
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_named_alone(&self) -> bool {
        // A service that folds case must not make a word of another class out of one of these.
        let name = self.0.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
        says(&HANDS_OUT)
            || (says(&LEAVES_BEHIND) && !self.reads())
            || NAMED_ALONE
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&name))
    }

    /// Whether its first word is one of reading.
    fn reads(&self) -> bool {
        READING.iter().any(|word| {
            let rest = self.0.strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
        })
    }
}

impl TryFrom<String> for AwsAction {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("an action is a word like GetObject")
    }
}

impl From<AwsAction> for String {
    fn from(action: AwsAction) -> Self {
        action.0
    }
}

impl fmt::Display for AwsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which actions a rule means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AwsPattern {
    /// Those that read, and hand out no credential.
    Read,
    /// Those that change something, and leave no authority behind.
    Write,
    /// This one.
    Named(AwsAction),
}

impl AwsPattern {
    /// `read`, `write`, or an action.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            name => AwsAction::parse(name).map(Self::Named),
        }
    }

    /// Whether it means the action.
    #[must_use]
    pub fn is_match(&self, action: &AwsAction) -> bool {
        match self {
            Self::Named(named) => named == action,
            Self::Read => !action.is_named_alone() && action.reads(),
            Self::Write => !action.is_named_alone() && !action.reads(),
        }
    }

    /// Whether it means every action that the other one means.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match other {
            Self::Named(action) => self.is_match(action),
            Self::Read | Self::Write => self == other,
        }
    }
}

impl fmt::Display for AwsPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Named(action) => action.fmt(f),
        }
    }
}

impl TryFrom<String> for AwsPattern {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("`read`, `write`, or an action like GetObject")
    }
}

impl From<AwsPattern> for String {
    fn from(pattern: AwsPattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_gets_no_credential_and_who_writes_leaves_no_authority() {
        let (read, write) = (AwsPattern::Read, AwsPattern::Write);
        let means =
            |pattern: &AwsPattern, name: &str| pattern.is_match(&AwsAction::parse(name).unwrap());
        for name in [
            "GetObject",
            "ListBucket",
            "DescribeTable",
            "Query",
            "BatchGetItem",
        ] {
            assert!(means(&read, name) && !means(&write, name), "{name}");
        }
        for name in [
            "PutObject",
            "DeleteItem",
            "Getaway",
            "Listen",
            "SendMessage",
        ] {
            assert!(means(&write, name) && !means(&read, name), "{name}");
        }
        for name in NAMED_ALONE {
            assert!(!means(&read, name) && !means(&write, name), "{name}");
            assert!(means(&AwsPattern::parse(name).unwrap(), name), "{name}");
            let shouted = name.to_ascii_uppercase();
            assert!(
                !means(&read, &shouted) && !means(&write, &shouted),
                "{name}"
            );
        }
        for bad in [
            "",
            "getObject",
            "Get*",
            "s3:GetObject",
            "Get Object",
            "Über",
        ] {
            assert_eq!(AwsAction::parse(bad), None, "{bad}");
        }
        let one = AwsPattern::parse("GetObject").unwrap();
        assert!(read.covers(&one) && !one.covers(&read) && !write.covers(&one));
        assert!(!read.covers(&AwsPattern::parse("GetSessionToken").unwrap()));
    }

    /// Each is documented to return a secret, a key or a token that is good elsewhere, at services
    /// that a rule may name.
    #[test]
    fn no_action_that_is_known_to_hand_out_a_credential_reads() {
        let read = AwsPattern::Read;
        let reads: Vec<_> = [
            // sts
            "GetWebIdentityToken",
            "GetDelegatedAccessToken",
            // ssm
            "GetAccessToken",
            // glue: with the password, unless HidePassword says otherwise.
            "GetConnection",
            "GetConnections",
            // ec2: with the pre-shared keys.
            "DescribeVpnConnections",
            "GetVpnConnectionDeviceSampleConfiguration",
        ]
        .into_iter()
        .filter(|name| read.is_match(&AwsAction::parse(name).unwrap()))
        .collect();
        assert!(reads.is_empty(), "`read` means {reads:?}");
    }

    /// Each leaves rights or a way in behind, or hands out a key, at services that a rule may name
    /// with `write`.
    #[test]
    fn no_action_that_is_known_to_leave_authority_behind_writes() {
        let write = AwsPattern::Write;
        let writes: Vec<_> = [
            // sqs, sns
            "AddPermission",
            "SetQueueAttributes",
            "SetTopicAttributes",
            // ecr, logs, events
            "SetRepositoryPolicy",
            "PutRegistryPolicy",
            "PutDestinationPolicy",
            "PutPermission",
            // ec2
            "CreateKeyPair",
            "ImportKeyPair",
            "ModifyImageAttribute",
            "ModifySnapshotAttribute",
            "AssociateIamInstanceProfile",
            // rds
            "ModifyDBSnapshotAttribute",
            "ModifyDBClusterSnapshotAttribute",
            // ssm, ecs
            "CreateActivation",
            "StartSession",
            "ExecuteCommand",
            // glue, athena, kms
            "UpdateDevEndpoint",
            "CreatePresignedNotebookUrl",
            "ReplicateKey",
        ]
        .into_iter()
        .filter(|name| write.is_match(&AwsAction::parse(name).unwrap()))
        .collect();
        assert!(writes.is_empty(), "`write` means {writes:?}");
    }
}
