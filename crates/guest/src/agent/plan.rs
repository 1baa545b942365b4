// SPDX-License-Identifier: Apache-2.0
//! The host's plan of a process, checked before anything is started for it: what can't be passed to
//! exec, or would be read otherwise by the program, is refused here.

use torno_guest_protocol::HostMessage;
use torno_guest_protocol::message::{ARGUMENTS_MAX, PATH_BYTES_MAX};

/// What is wrong with a `StartProcess`.
pub(super) fn fault(plan: &HostMessage) -> Option<String> {
    let HostMessage::StartProcess { argv, env, cwd, .. } = plan else {
        return Some("not a plan; report this".into());
    };
    let has_nul = |text: &String| text.contains('\0');
    if argv.first().is_none_or(String::is_empty) {
        return Some("the command is empty; name a program".into());
    }
    if argv.len() > ARGUMENTS_MAX || env.len() > ARGUMENTS_MAX {
        return Some(format!(
            "more than {ARGUMENTS_MAX} arguments or variables; pass a file"
        ));
    }
    if argv.iter().any(has_nul)
        || env
            .iter()
            .any(|(name, value)| has_nul(name) || has_nul(value))
    {
        return Some("an argument or variable holds a NUL byte; leave it out".into());
    }
    if env
        .iter()
        .any(|(name, _)| name.is_empty() || name.contains('='))
    {
        return Some("a variable's name is empty or holds `=`; correct it".into());
    }
    if !cwd.starts_with('/') || has_nul(cwd) || cwd.len() > PATH_BYTES_MAX {
        return Some("the working directory is not an absolute path; give one".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_guest_protocol::ExecId;

    fn plan(argv: &[&str], variable: (&str, &str), cwd: &str) -> HostMessage {
        HostMessage::StartProcess {
            exec: ExecId(1),
            argv: argv.iter().map(|&text| text.to_owned()).collect(),
            env: vec![(variable.0.to_owned(), variable.1.to_owned())],
            cwd: cwd.to_owned(),
            tty: None,
        }
    }

    #[test]
    fn a_plan_in_order_has_no_fault_and_each_fault_is_named() {
        assert_eq!(fault(&plan(&["ls", ""], ("A", "b=c"), "/")), None);
        for (broken, word) in [
            (plan(&[], ("A", ""), "/"), "empty"),
            (plan(&["", "x"], ("A", ""), "/"), "empty"),
            (plan(&["ls", "a\0b"], ("A", ""), "/"), "NUL"),
            (plan(&["ls"], ("A", "\0"), "/"), "NUL"),
            (plan(&["ls"], ("", "x"), "/"), "name"),
            (plan(&["ls"], ("A=B", "x"), "/"), "name"),
            (plan(&["ls"], ("A", ""), "tmp"), "absolute"),
            (plan(&["ls"], ("A", ""), "/\0"), "absolute"),
            (plan(&["x"; ARGUMENTS_MAX + 1], ("A", ""), "/"), "arguments"),
        ] {
            let found = fault(&broken).unwrap_or_default();
            assert!(found.contains(word), "{word}: {found}");
        }
    }
}
