// SPDX-License-Identifier: Apache-2.0
//! One image at all levels: what a machine shows of it is what a container shows, it needs nothing
//! of ours inside, no machine begins as one of another image, and Debian's packages become one by
//! their names. Machines are emulated here, so these stories are few.

use crate::ahead::{until, until_waiting};
use crate::images::{accept, build, chosen, digest_of, root};
use crate::stage::{Ran, Stage, at_machine, missing};
use std::fs;
use std::process::Command;
use torno_stage::account::Who;
use torno_stage::clones::await_template;

/// Runs a script without a workspace, which lies elsewhere in a machine.
#[track_caller]
fn run(stage: &Stage, level: &str, script: &str) -> Ran {
    let options = ["--workspace", "none"];
    let command = ["/bin/sh", "-c", script];
    let output = stage.daemon.run_in(level, &options, &command).output();
    stage.hear(&output.unwrap())
}

/// What is where, what may be written to, whose it is, and that the network is sealed and open for
/// what was granted, without nft in the image.
const LOOK: &str = "cat /etc/of-the-image /var/lib/tools/state /etc/passwd; id -u; \
    only-here || /opt/bin/only-here; \
    touch /usr/x /opt/x /etc/x /var/lib/tools/x 2>/dev/null || echo read-only; \
    [ -x /opt/bin/only-here ] && [ ! -u /opt/bin/only-here ] && echo no set-user-id bit; \
    ls / /usr /usr/bin; (cd /bin && pwd -P); \
    cat /usr/sbin/nft 2>/dev/null || echo no nft; \
    curl -sS -f -o /dev/null https://api.torno.test/public && echo trusted; \
    curl -sS -o /dev/null -w '%{http_code}\\n' https://elsewhere.torno.test/; \
    curl -sS -f -o /dev/null -H \"authorization: Bearer $API_TOKEN\" \
        https://api.torno.test/v1/me && echo bound";

#[test]
fn one_image_runs_at_every_level_and_says_the_same() {
    let levels = ["microvm", "vm"];
    at_machine("one image at every level", &levels, |stage, level| {
        let root = root(stage, "made of an image\n");
        let digest = build(stage, &root, "tools");
        accept(stage, "tools");
        let said = run(stage, level, LOOK).good().stdout;
        for line in [
            "made of an image",
            "root:x:0:0",
            "found by its PATH",
            "read-only",
            "no set-user-id bit",
            "/usr/bin",
            "no nft",
            "trusted",
            "bound",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        for other in ["container", "gvisor"] {
            if missing(Who::Caller, other).is_none() {
                assert_eq!(run(stage, other, LOOK).good().stdout, said, "{other}");
            }
        }
        assert!(chosen(stage).iter().all(|chosen| *chosen == digest));
        // The disk was made once, and is looked at with its image.
        let disks = || {
            let image = stage.daemon.state().join("images/unpacked");
            let image = image.join(digest.strip_prefix("sha256:").unwrap());
            let entries = fs::read_dir(image).unwrap().flatten();
            let paths = entries.map(|entry| entry.path());
            let is_disk =
                |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "erofs");
            paths.filter(is_disk).collect::<Vec<_>>()
        };
        let [disk] = &disks()[..] else {
            panic!("{:?}", disks());
        };
        stage.torno(&["image", "verify"]).good();
        let mut bytes = fs::read(disk).unwrap();
        let last = bytes.last_mut().unwrap();
        *last ^= 1;
        fs::write(disk, bytes).unwrap();
        let changed = stage.torno(&["image", "verify"]);
        assert_eq!(changed.code, Some(1), "{changed:?}");
        assert!(changed.stdout.contains(&digest), "{changed:?}");
    });
}

#[test]
fn no_machine_begins_as_one_of_another_image() {
    at_machine("machines of two images", &["microvm"], |stage, level| {
        let root = root(stage, "the first\n");
        let first = build(stage, &root, "first");
        fs::write(root.join("etc/of-the-image"), "the second\n").unwrap();
        let second = build(stage, &root, "second");
        let look = "cat /etc/of-the-image";
        // A template of the first, and a machine that was restored from it ahead.
        accept(stage, "first");
        assert_eq!(run(stage, level, look).good().stdout, "the first\n");
        await_template(&stage.daemon).unwrap();
        let ahead = until_waiting(stage, 1);
        accept(stage, "second");
        assert_eq!(run(stage, level, look).good().stdout, "the second\n");
        // Who waits is the first's still, and becomes the first's.
        accept(stage, "first");
        assert_eq!(run(stage, level, look).good().stdout, "the first\n");
        assert_eq!(chosen(stage), [first.clone(), second, first]);
        let records = stage.daemon.records().unwrap();
        let claimed = |record: &&serde_json::Value| record.to_string().contains("sandbox_claimed");
        let claims: Vec<String> = records
            .iter()
            .filter(claimed)
            .map(ToString::to_string)
            .collect();
        let its = ahead.first().unwrap();
        assert!(claims.len() == 1 && claims[0].contains(its), "{claims:?}");
    });
}

#[test]
fn an_image_stays_while_a_machine_is_made_of_it_and_goes_after() {
    at_machine("an image in a machine", &["microvm"], |stage, level| {
        build(stage, &root(stage, "in use\n"), "tools");
        accept(stage, "tools");
        let options = ["--isolation", level, "--workspace", "none", "--detach"];
        let words = [&["run", "--quiet"], &options[..]].concat();
        let session = stage.torno(&words).good().stdout.trim().to_owned();
        let refused = stage.torno(&["image", "remove", "tools"]);
        assert_eq!(refused.code, Some(125), "{refused:?}");
        let says_so = refused.stderr.contains("in use by a sandbox");
        assert!(says_so, "{refused:?}");
        stage.torno(&["kill", &session]).good();
        stage.torno(&["kill", "--all"]);
        until("the image is free", || {
            stage.torno(&["image", "remove", "tools"]).code == Some(0)
        });
        let shelf = stage.daemon.state().join("images/unpacked");
        assert_eq!(fs::read_dir(shelf).unwrap().count(), 0);
    });
}

/// Why no image of Debian's packages can be made here, if that is so.
fn no_packages() -> Option<&'static str> {
    let is_here = Command::new("mmdebstrap").arg("--version").output();
    if is_here.is_err() {
        return Some("mmdebstrap is not installed");
    }
    // The machine's own sources, as its own apt sees them.
    let asked = Command::new("apt-get")
        .args(["-qq", "--print-uris", "download", "jq"])
        .output();
    let uri = asked
        .ok()
        .and_then(|said| String::from_utf8(said.stdout).ok());
    let uri = uri.as_deref().and_then(|said| said.split('\'').nth(1));
    let Some(uri) = uri else {
        return Some("this machine has no lists of Debian's packages");
    };
    let fetched = Command::new("curl")
        .args(["-sSfI", "-m", "20", "-o", "/dev/null", uri])
        .status();
    match fetched {
        Ok(status) if status.success() => None,
        _ => Some("no network: the sources that are configured are out of reach"),
    }
}

#[test]
fn an_image_of_debians_packages_is_built_by_their_names_and_runs() {
    if let Some(why) = no_packages() {
        println!("SKIP: an image of Debian's packages: {why}");
        return;
    }
    at_machine(
        "an image of Debian's packages",
        &["microvm"],
        |stage, level| {
            let build = ["image", "build", "--debian", "jq", "--name", "debian"];
            let digest = digest_of(&stage.torno(&build).good());
            let host = fs::read_to_string("/etc/hostname").unwrap_or_default();
            accept(stage, "debian");
            let look = "jq -cn '{a: (1 + 1)}'; cat /etc/hostname /etc/apt/sources.list 2>&1 | grep -c No; \
            ls /dev/sda 2>/dev/null; grep ^ID= /etc/os-release";
            for level in ["container", level] {
                if missing(Who::Caller, level).is_none() {
                    let said = run(stage, level, look).stdout;
                    assert!(said.contains("{\"a\":2}\n"), "{level}: {said}");
                    assert!(said.contains("ID=debian"), "{level}: {said}");
                    assert!(host.is_empty() || !said.contains(host.trim()), "{said}");
                }
            }
            assert!(chosen(stage).iter().all(|chosen| *chosen == digest));
            // What apt does not know is no image, and neither is what could be an option or a pattern.
            let refused = ["image", "build", "--debian", "no-such-package-of-debian"];
            let refused = stage.torno(&refused);
            assert_eq!(refused.code, Some(125), "{refused:?}");
            assert!(refused.stderr.contains("no-such-package"), "{refused:?}");
            for bad in ["-y", "jq-", "jq=1", "?obsolete", "./jq.deb"] {
                let option = format!("--debian={bad}");
                let refused = stage.torno(&["image", "build", &option, "--name", "x"]);
                assert_eq!(refused.code, Some(125), "{bad}: {refused:?}");
            }
            let blobs = stage.daemon.state().join("images/blobs");
            assert_eq!(fs::read_dir(blobs).unwrap().count(), 0);
        },
    );
}
