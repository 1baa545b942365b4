// SPDX-License-Identifier: Apache-2.0
//! `[sandbox]` and `[install]`.

use super::fields::{Entry, Fields, Value, entries, fail, list, some_of, text, word};
use super::{DocumentError, Presets, files, limits, rules};
use crate::grant::{
    ALSO_MAX, AllowRule, FileRules, Image, InstallGrant, Isolation, SandboxGrant, WorkspaceMode,
};
use crate::names::{ImageDigest, ImageName};
use crate::standing::Phase;

const KEYS: [&str; 9] = [
    "isolation",
    "image",
    "also",
    "workspace",
    "files",
    "env",
    "limits",
    "tripwires",
    "emulation",
];

pub(super) fn read(value: Option<&Value<'_>>) -> Result<SandboxGrant, DocumentError> {
    let mut sandbox = SandboxGrant {
        isolation: Isolation::Strongest,
        also: Vec::new(),
        workspace: WorkspaceMode::Copy,
        files: FileRules::default(),
        env: Vec::new(),
        limits: limits::LIMITS_DEFAULT,
        tripwires: true,
        emulation: false,
        image: Image::Host,
    };
    let Some(value) = value else {
        return Ok(sandbox);
    };
    let fields = Fields::of(value, &KEYS)?;
    if let Some(value) = fields.get("isolation") {
        sandbox.isolation = isolation(value)?;
    }
    if let Some(value) = fields.get("image") {
        sandbox.image = image(value)?;
    }
    if let Some(value) = fields.get("also") {
        sandbox.also = some_of(value, files::host_directory)?;
        if sandbox.also.len() > ALSO_MAX {
            return fail(
                value.span(),
                format!("at most {ALSO_MAX} directories; list one that holds several"),
            );
        }
    }
    if let Some(value) = fields.get("workspace") {
        sandbox.workspace = workspace(value)?;
    }
    if let Some(value) = fields.get("files") {
        let fields = Fields::of(value, &["write", "hide"])?;
        let write = fields.get("write").map(files::rules).transpose()?;
        let hide = fields.get("hide").map(files::rules).transpose()?;
        sandbox.files = FileRules {
            write,
            hide: hide.unwrap_or_default(),
        };
    }
    if let Some(value) = fields.get("env") {
        for Entry {
            key: name,
            span,
            value,
        } in entries(value)?
        {
            sandbox
                .env
                .push((files::variable(name, span)?, files::plain(value)?));
        }
    }
    sandbox.limits = limits::read(fields.get("limits"))?;
    if fields.get("tripwires").is_some() {
        sandbox.tripwires = fields.flag("tripwires")?;
    }
    if fields.get("emulation").is_some() {
        sandbox.emulation = fields.flag("emulation")?;
    }
    Ok(sandbox)
}

/// `host`, a name of this machine, or a digest.
fn image(value: &Value<'_>) -> Result<Image, DocumentError> {
    let spelled = text(value)?;
    if spelled == "host" {
        return Ok(Image::Host);
    }
    if spelled.contains(':') {
        return match ImageDigest::parse(spelled) {
            Ok(digest) => Ok(Image::Exact(digest)),
            Err(error) => fail(value.span(), error.to_string()),
        };
    }
    match ImageName::parse(spelled) {
        Ok(name) => Ok(Image::Named { name, digest: None }),
        Err(error) => fail(value.span(), error.to_string()),
    }
}

fn isolation(value: &Value<'_>) -> Result<Isolation, DocumentError> {
    let levels = [
        ("strongest", Isolation::Strongest),
        ("container", Isolation::Container),
        ("gvisor", Isolation::Gvisor),
        ("microvm", Isolation::Microvm),
        ("vm", Isolation::Vm),
    ];
    word(value, &levels)
}

fn workspace(value: &Value<'_>) -> Result<WorkspaceMode, DocumentError> {
    let fields = Fields::of(value, &["path", "mode"])?;
    if let Some(path) = fields.get("path")
        && text(path)? != "."
    {
        return fail(
            path.span(),
            "the workspace is the directory of this file; write \".\"",
        );
    }
    let modes = [
        ("copy", WorkspaceMode::Copy),
        ("bind", WorkspaceMode::Bind),
        ("none", WorkspaceMode::None),
    ];
    fields
        .get("mode")
        .map_or(Ok(WorkspaceMode::Copy), |value| word(value, &modes))
}

/// The install phase, and the rules that hold in it.
pub(super) fn read_install(
    value: Option<&Value<'_>>,
    presets: &Presets,
) -> Result<(Option<InstallGrant>, Vec<AllowRule>), DocumentError> {
    let Some(value) = value else {
        return Ok((None, Vec::new()));
    };
    let fields = Fields::of(value, &["see", "run", "allow"])?;
    let see = fields
        .get("see")
        .map(files::rules)
        .transpose()?
        .unwrap_or_default();
    let run = some_of(fields.require("run")?, command)?;
    let allow = rules::read_for(
        fields.get("allow"),
        "install.allow",
        presets,
        Phase::Install,
    )?;
    Ok((Some(InstallGrant { see, run }), allow))
}

fn command(value: &Value<'_>) -> Result<Vec<String>, DocumentError> {
    let words = list(value)?
        .into_iter()
        .map(files::plain)
        .collect::<Result<Vec<_>, _>>()?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        Some(_) | None => fail(
            value.span(),
            "a command is a list of words that begins with a program",
        ),
    }
}
