// SPDX-License-Identifier: Apache-2.0
//! The smallest binary that can be a keeper: `keeper keeper DIRECTORY…`.

use std::process::ExitCode;

fn main() -> ExitCode {
    torno_sandbox::keeper_main(std::env::args_os().skip(2))
}
