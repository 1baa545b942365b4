// SPDX-License-Identifier: Apache-2.0
//! What a command must be before anybody is asked about it.

use torno_control_api::request::{Exec, Failure};

/// LIMIT: one argument or variable of a command.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// A command must be one that can be started and shown.
pub(super) fn check_command(exec: &Exec) -> Result<(), Failure> {
    let env = exec.env.iter().flat_map(|(name, value)| [name, value]);
    let texts = exec.argv.iter().chain(env).chain(exec.cwd.iter());
    let fits = |text: &String| text.len() <= ARGUMENT_BYTES_MAX && !text.contains('\0');
    let program = exec.argv.first().is_some_and(|program| !program.is_empty());
    if program && texts.into_iter().all(fits) {
        return Ok(());
    }
    Err(Failure {
        code: "malformed_command".to_owned(),
        message: "a command has a program, and no part with NUL or over 128 KiB".to_owned(),
        hint: "put large input into a file or standard input".to_owned(),
    })
}
