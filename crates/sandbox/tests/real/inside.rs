// SPDX-License-Identifier: Apache-2.0
//! What code inside sees and what it can't do.

use crate::harness::Running;
use torno_sandbox::Level;

const LEVELS: [Level; 2] = [Level::Container, Level::Gvisor];

#[test]
fn it_starts_and_answers_over_the_link() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        assert_eq!(
            sandbox.run("import os; print(os.getuid(), os.getgid(), os.uname().nodename)"),
            "1000 1000 sandbox"
        );
        println!("{}", sandbox.run("import subprocess;print(subprocess.run('cat /proc/self/mounts; ls -la / /etc /home /run /proc/self/fd; env; cat /proc/self/status',shell=True,capture_output=True,text=True))").replace("\\n","\n"));
    }
}
