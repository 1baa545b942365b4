// SPDX-License-Identifier: Apache-2.0
//! A sandbox is made of an image instead of the host's programs: what of it is there, what the
//! record says of it, and what a hostile one can't do to the host. The images are made here, of a
//! few of the host's own programs.

use crate::ahead::until;
use crate::stage::{Ran, Stage, at_each_level, at_each_level_for_both};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torno_stage::daemon::POLICY;
use torno_stage::world::authority::Authority;
use torno_stage::world::listen::{Answer, Origin, Visit, answer, serve, with};

/// What the images hold, besides what these need.
const PROGRAMS: [&str; 9] = [
    "sh", "cat", "ls", "id", "touch", "tar", "curl", "sleep", "env",
];

/// A root directory of a few programs, laid out as distributions have it.
pub(crate) fn root(stage: &Stage, says: &str) -> PathBuf {
    let root = stage.daemon.home().join("outside/root");
    for directory in [
        "usr/bin",
        "usr/lib64",
        "etc",
        "opt/bin",
        "tmp",
        "var/lib/tools",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib64", "usr/lib64"),
        ("lib", "usr/lib64"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let path = Path::new("/bin").join(program);
        fs::copy(&path, root.join("usr/bin").join(program)).unwrap();
        let needs = Command::new("ldd").arg(&path).output().unwrap();
        let needs = String::from_utf8(needs.stdout).unwrap();
        let paths = needs
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(PathBuf::from));
    }
    for library in libraries {
        let name = library.file_name().unwrap();
        fs::copy(&library, root.join("usr/lib64").join(name)).unwrap();
    }
    fs::write(root.join("etc/of-the-image"), says).unwrap();
    fs::write(root.join("etc/passwd"), "root::0:0::/:/bin/sh\n").unwrap();
    fs::write(root.join("var/lib/tools/state"), "known").unwrap();
    fs::write(
        root.join("opt/bin/only-here"),
        "#!/bin/sh\necho found by its PATH\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(root.join("opt/bin/only-here"), executable).unwrap();
    root
}

/// Accepts a policy that names an image.
pub(crate) fn accept(stage: &Stage, image: &str) {
    let policy = POLICY.replacen("[sandbox]", &format!("[sandbox]\nimage = \"{image}\""), 1);
    stage.daemon.write_workspace("torno.toml", &policy).unwrap();
    stage.torno(&["trust", "--yes"]).good();
}

pub(crate) fn build(stage: &Stage, root: &Path, name: &str) -> String {
    let root = root.to_str().unwrap();
    let built = stage.torno(&["image", "build", "--directory", root, "--name", name]);
    digest_of(&built.good())
}

pub(crate) fn digest_of(ran: &Ran) -> String {
    let at = ran.stdout.find("sha256:").unwrap();
    ran.stdout[at..at + 71].to_owned()
}

/// Digests of images that sessions were made of, in their order.
pub(crate) fn chosen(stage: &Stage) -> Vec<String> {
    let records = stage.daemon.records().unwrap();
    let events = records
        .iter()
        .filter(|r| r["event"]["kind"] == "image_chosen");
    events
        .map(|record| record["event"]["digest"].as_str().unwrap().to_owned())
        .collect()
}

const LOOK: &str = "cat /etc/of-the-image; \
    cat /var/lib/tools/state; cat /etc/passwd; id -u; \
    touch /usr/x /opt/x /etc/x 2>/dev/null || echo read-only; \
    ls -ld /opt/bin/only-here; [ -e /usr/share ] || echo nothing of the host; \
    curl -sS -f -o /dev/null https://api.torno.test/public && echo trusted; \
    curl -sS -f -o /dev/null -H \"authorization: Bearer $API_TOKEN\" \
        https://api.torno.test/v1/me && echo bound";

#[test]
fn a_sandbox_is_made_of_a_built_image_and_the_record_says_which() {
    at_each_level_for_both("a sandbox of a built image", |stage, level| {
        let root = root(stage, "made of an image\n");
        let digest = build(stage, &root, "tools");
        accept(stage, "tools");
        let ran = stage.shell(level, LOOK).good();
        for line in [
            "made of an image",
            "knownroot:x:0:0",
            "1000",
            "read-only",
            "trusted",
            "bound",
        ] {
            assert!(ran.stdout.contains(line), "{line}: {ran:?}");
        }
        assert!(ran.stdout.contains("nothing of the host"), "{ran:?}");
        assert!(
            ran.stdout.contains("-rwxr-xr-x"),
            "a set-user-id bit: {ran:?}"
        );
        assert_eq!(chosen(stage).last(), Some(&digest));
        // By digest too; and what the name stands for later is another session's.
        accept(stage, &digest);
        stage.run(level, &["cat", "/etc/of-the-image"]).good();
        fs::write(root.join("etc/of-the-image"), "another one\n").unwrap();
        let second = build(stage, &root, "tools");
        assert_ne!(second, digest);
        accept(stage, "tools");
        let ran = stage.run(level, &["cat", "/etc/of-the-image"]).good();
        assert_eq!(ran.stdout, "another one\n");
        assert_eq!(chosen(stage), [digest.clone(), digest, second]);
    });
}

/// Writes an OCI layout with one layer of a root directory.
fn layout(stage: &Stage, root: &Path) -> PathBuf {
    let place = stage.daemon.home().join("outside/layout");
    let blobs = place.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let tar = Command::new("tar")
        .arg("-C")
        .arg(root)
        .args(["-cf", "-", "."])
        .output();
    let layer = tar.unwrap().stdout;
    let put = |bytes: &[u8]| {
        let hex = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
        fs::write(blobs.join(&hex), bytes).unwrap();
        (format!("sha256:{hex}"), bytes.len())
    };
    let (layer, layer_size) = put(&layer);
    let config = serde_json::json!({
        "architecture": match std::env::consts::ARCH { "aarch64" => "arm64", _ => "amd64" },
        "os": "linux",
        "config": { "Env": ["PATH=/opt/bin:/usr/bin", "CURL_CA_BUNDLE=/mine"], "User": "0" },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
    });
    let (config, config_size) = put(config.to_string().as_bytes());
    let kind = "application/vnd.oci.image";
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "config": { "mediaType": format!("{kind}.config.v1+json"), "digest": config,
            "size": config_size },
        "layers": [{ "mediaType": format!("{kind}.layer.v1.tar"), "digest": layer,
            "size": layer_size }],
    });
    let (manifest, size) = put(manifest.to_string().as_bytes());
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [
        { "mediaType": format!("{kind}.manifest.v1+json"), "digest": manifest, "size": size },
    ] });
    fs::write(place.join("index.json"), index.to_string()).unwrap();
    place
}

#[test]
fn a_sandbox_is_made_of_an_oci_layout_under_the_digest_of_its_manifest() {
    at_each_level("a sandbox of an OCI layout", |stage, level| {
        let layout = layout(stage, &root(stage, "of a layout\n"));
        let index = fs::read_to_string(layout.join("index.json")).unwrap();
        let import = [
            "image",
            "import",
            layout.to_str().unwrap(),
            "--name",
            "tools",
        ];
        let digest = digest_of(&stage.torno(&import).good());
        assert!(index.contains(&digest), "{digest}: {index}");
        accept(stage, "tools");
        let ran = stage.shell(level, &format!("only-here; {LOOK}")).good();
        for line in [
            "found by its PATH",
            "of a layout",
            "1000",
            "trusted",
            "bound",
        ] {
            assert!(ran.stdout.contains(line), "{line}: {ran:?}");
        }
        assert_eq!(chosen(stage), [digest]);
    });
}

#[test]
fn an_image_stays_while_a_sandbox_is_made_of_it_and_goes_after() {
    at_each_level("an image in use", |stage, level| {
        let digest = build(stage, &root(stage, "in use\n"), "tools");
        accept(stage, "tools");
        let run = ["run", "--quiet", "--isolation", level, "--detach"];
        let session = stage.torno(&run).good().stdout.trim().to_owned();
        let refused = stage.torno(&["image", "remove", "tools"]);
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(
            refused.stderr.contains("in use by a sandbox"),
            "{refused:?}"
        );
        stage.torno(&["image", "verify"]).good();
        stage.torno(&["kill", &session]).good();
        // The one that was made ahead for the next session holds it as well, until the daemon lets
        // go of it.
        stage.torno(&["kill", "--all"]);
        until("the image is free", || {
            stage.torno(&["image", "remove", "tools"]).code == Some(0)
        });
        let gone = stage.torno(&["run", "--quiet", "--isolation", level, "--", "true"]);
        assert_eq!(gone.code, Some(125), "{gone:?}");
        assert!(
            gone.stderr.contains("there is no image `tools`"),
            "{gone:?}"
        );
        assert!(gone.stderr.contains("torno image import"), "{gone:?}");
        let shelf = stage.daemon.state().join("images/unpacked");
        assert_eq!(fs::read_dir(shelf).unwrap().count(), 0, "{digest}");
    });
}

/// Archives as a hostile registry would give them, written by Python's own packer.
const HOSTILE: &str = r#"
import io, json, hashlib, os, sys, tarfile
probe, out = sys.argv[1], sys.argv[2]
def entry(name, kind=tarfile.REGTYPE, link="", data=b"x", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data
L, H, D = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
cases = {
    "symlink": [[entry("d", L, probe), entry("d/dropped")]],
    "layers": [[entry("d", L, probe)], [entry("d/dropped")]],
    "relative": [[entry("d", L, "../../../../.." + probe), entry("d/dropped")]],
    "hard": [[entry("k", L, probe + "/kept"), entry("h", H, "k"), entry("h")]],
    "hard-out": [[entry("h", H, probe + "/kept")]],
    "up": [[entry("../../../dropped")]],
    "absolute": [[entry(probe + "/dropped")]],
    "mode": [[entry("d", L, probe), entry("d/", D, mode=0o777), entry("d/x/../../y")]],
    "whiteout": [[entry("d", L, probe)], [entry("d/.wh.kept", data=b"")]],
    "opaque": [[entry("d", L, probe)], [entry("d/.wh..wh..opq", data=b"")]],
    "deep": [[entry("/".join(["d"] * 5000))]],
}
for name, layers in cases.items():
    packed = []
    for entries in layers:
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for info, data in entries:
                tar.addfile(info, io.BytesIO(data) if info.size else None)
        packed.append(raw.getvalue())
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    ids = ["sha256:" + hashlib.sha256(p).hexdigest() for p in packed]
    config = json.dumps({"architecture": machine, "os": "linux",
                         "rootfs": {"type": "layers", "diff_ids": ids}}).encode()
    files = [(f"{i}/layer.tar", p) for i, p in enumerate(packed)] + [("c.json", config)]
    listed = [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": [f for f, _ in files[:-1]]}]
    files.append(("manifest.json", json.dumps(listed).encode()))
    with tarfile.open(f"{out}/{name}.tar", "w") as tar:
        for path, data in files:
            tar.addfile(entry(path, data=data)[0], io.BytesIO(data))
"#;

// ATTACK: 169
// ATTACK: 171
#[test]
fn a_hostile_archive_touches_nothing_of_the_host_and_leaves_nothing() {
    let stage = Stage::new();
    let (probe, out) = (
        stage.daemon.home().join("outside/probe"),
        stage.daemon.home().join("outside/hostile"),
    );
    for path in [&probe, &out] {
        fs::create_dir(path).unwrap();
    }
    fs::write(probe.join("kept"), "kept").unwrap();
    let looks = || {
        let names: Vec<_> = fs::read_dir(&probe)
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        let (kept, own) = (
            fs::metadata(probe.join("kept")).unwrap(),
            fs::metadata(&probe).unwrap(),
        );
        let said = fs::read_to_string(probe.join("kept")).unwrap();
        (
            names,
            said,
            kept.nlink(),
            kept.mode(),
            own.mode(),
            own.mtime_nsec(),
        )
    };
    let before = looks();
    let python = Command::new("python3")
        .args([
            "-c",
            HOSTILE,
            probe.to_str().unwrap(),
            out.to_str().unwrap(),
        ])
        .status();
    assert!(python.unwrap().success());
    let shelf = stage.daemon.state().join("images");
    let mut tried = 0;
    for archive in fs::read_dir(&out).unwrap().flatten() {
        let path = archive.path();
        let import = [
            "image",
            "import",
            path.to_str().unwrap(),
            "--name",
            "hostile",
        ];
        let refused = stage.torno(&import);
        assert_eq!(refused.code, Some(125), "{path:?}: {refused:?}");
        assert!(
            refused.stderr.contains("nothing of it was kept"),
            "{refused:?}"
        );
        assert_eq!(looks(), before, "{path:?}");
        assert!(
            fs::read_dir(shelf.join("unpacked"))
                .unwrap()
                .next()
                .is_none()
        );
        tried += 1;
    }
    assert_eq!(tried, 11);
    stage.torno(&["image", "prune"]).good();
    for place in ["blobs", "unfinished", "names"] {
        assert_eq!(
            fs::read_dir(shelf.join(place)).unwrap().count(),
            0,
            "{place}"
        );
    }
    stage.end();
}

#[test]
fn an_import_that_is_cut_or_killed_leaves_no_image_and_the_next_one_works() {
    let stage = Stage::new();
    let layout = layout(&stage, &root(&stage, "cut\n"));
    let archive = stage.daemon.home().join("outside/image.tar");
    let packed = Command::new("tar")
        .arg("-C")
        .arg(&layout)
        .arg("-cf")
        .arg(&archive)
        .args(["index.json", "blobs"])
        .status();
    assert!(packed.unwrap().success());
    let whole = fs::read(&archive).unwrap();
    let path = archive.to_str().unwrap();
    let import = ["image", "import", path, "--name", "tools"];
    fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
    let cut = stage.torno(&import);
    assert_eq!(cut.code, Some(125), "{cut:?}");
    let listed = || stage.torno(&["image", "list"]).good().stdout;
    assert!(listed().contains("no image but the host's"));
    fs::write(&archive, &whole).unwrap();
    for wait in [1, 5, 10, 20, 40] {
        let mut running = stage.daemon.torno(&import);
        let mut running = running
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        running.kill().unwrap();
        running.wait().unwrap();
        // Whole, or not there.
        let verified = stage.torno(&["image", "verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    let digest = digest_of(&stage.torno(&import).good());
    assert!(listed().contains(&digest));
    let unfinished = stage.daemon.state().join("images/unfinished");
    assert_eq!(fs::read_dir(unfinished).unwrap().count(), 0);
    stage.torno(&["image", "verify", "tools"]).good();
    stage.end();
}

/// A registry with one image, which asks for a token and points elsewhere for its layers.
struct Registry {
    layout: PathBuf,
    elsewhere: std::sync::OnceLock<u16>,
    /// Of a layer's answers, so many are cut in the middle.
    cuts: std::sync::atomic::AtomicUsize,
}

impl Registry {
    fn blob(&self, digest: &str) -> Option<Vec<u8>> {
        let hex = digest.strip_prefix("sha256:")?;
        fs::read(self.layout.join("blobs/sha256").join(hex)).ok()
    }

    fn manifest(&self) -> String {
        let index = fs::read_to_string(self.layout.join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        index["manifests"][0]["digest"].as_str().unwrap().to_owned()
    }
}

impl Origin for Registry {
    async fn answer(self: Arc<Self>, visit: Visit) -> Answer {
        let (path, authorization) = (visit.request.uri().path(), visit.header("authorization"));
        if path == "/token" {
            // An anonymous one: what the person's configuration has is for another registry.
            assert_eq!(authorization, None);
            return answer(200, r#"{"token":"t0ken"}"#);
        }
        if let Some(digest) = path.strip_prefix("/cdn/") {
            assert_eq!(
                authorization, None,
                "a token went where the registry points"
            );
            let Some(blob) = self.blob(digest) else {
                return answer(404, "");
            };
            let length = blob.len();
            let left = |left: usize| left.checked_sub(1);
            let is_cut = length > 100_000 && self.cuts.fetch_update(Relaxed, Relaxed, left).is_ok();
            let sent = if is_cut { length / 2 } else { length };
            return answer(200, blob[..sent].to_vec());
        }
        let port = self.elsewhere.get().unwrap();
        if authorization != Some("Bearer t0ken") {
            let challenge = "Bearer realm=\"https://localhost:PORT/token\",service=\"registry\"";
            let challenge = challenge.replace("PORT", &port.to_string());
            return with(answer(401, ""), "www-authenticate", &challenge);
        }
        match path
            .strip_prefix("/v2/acme/tools/")
            .and_then(|rest| rest.split_once('/'))
        {
            Some(("manifests", wanted)) => {
                let digest = self.manifest();
                if wanted != "1.0" && wanted != digest {
                    return answer(404, "");
                }
                let kind = "application/vnd.oci.image.manifest.v1+json";
                with(
                    answer(200, self.blob(&digest).unwrap()),
                    "content-type",
                    kind,
                )
            }
            Some(("blobs", digest)) => {
                let there = format!("https://localhost:{port}/cdn/{digest}");
                with(answer(307, ""), "location", &there)
            }
            _ => answer(404, ""),
        }
    }
}

#[test]
fn an_image_is_pulled_by_its_digest_and_a_pull_that_is_cut_goes_on_later() {
    let stage = Stage::new();
    let layout = layout(&stage, &root(&stage, "of a registry\n"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let authority = Authority::new("a registry's").unwrap();
    let registry = Arc::new(Registry {
        layout,
        elsewhere: std::sync::OnceLock::new(),
        cuts: 2.into(),
    });
    let tls = authority.server(&["localhost"]).unwrap();
    let serving = serve(tls, Arc::clone(&registry));
    let listening = runtime.block_on(serving).unwrap();
    let port = listening.address.port();
    registry.elsewhere.set(port).unwrap();
    let ca = stage.daemon.home().join("outside/registry-ca.pem");
    fs::write(&ca, authority.pem()).unwrap();
    let pull = |reference: &str, more: &[&str]| {
        let words = ["image", "pull", reference, "--name", "tools"];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        stage.torno(&words)
    };
    let trusted = ["--ca-file", ca.to_str().unwrap()];
    let tag = format!("localhost:{port}/acme/tools:1.0");
    // Nobody is trusted who can't prove who he is.
    let unknown = pull(&tag, &[]);
    assert_eq!(unknown.code, Some(125), "{unknown:?}");
    assert!(unknown.stderr.contains("certificate"), "{unknown:?}");
    // The layer is cut, twice; what came whole stays for the next pull.
    for _ in 0..2 {
        let cut = pull(&tag, &trusted);
        assert_eq!(cut.code, Some(125), "{cut:?}");
        assert!(
            stage
                .torno(&["image", "list"])
                .good()
                .stdout
                .contains("no image")
        );
    }
    let digest = digest_of(&pull(&tag, &trusted).good());
    assert_eq!(digest, registry.manifest());
    let asked = listening.journal.requests();
    let asked = asked
        .iter()
        .filter(|request| request.target.starts_with("/cdn/"));
    assert_eq!(
        asked.count(),
        1 + 3,
        "a configuration, and a layer three times"
    );
    stage.torno(&["image", "verify"]).good();
    stage.torno(&["image", "remove", "tools"]).good();
    let exact = format!("localhost:{port}/acme/tools@{digest}");
    assert_eq!(digest_of(&pull(&exact, &trusted).good()), digest);
    let other = exact.replace(&digest[7..11], "0000");
    assert_eq!(pull(&other, &trusted).code, Some(125));
    stage.end();
}
