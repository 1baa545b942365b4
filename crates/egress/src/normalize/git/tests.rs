// SPDX-License-Identifier: Apache-2.0

use super::*;

fn of(method: &str, target: &str) -> Result<Option<GitFacts>, Reason> {
    let method = Method::parse(method).unwrap();
    facts(&method, &RequestPath::parse(target).unwrap()).map_err(|fault| fault.reason)
}

fn read_commands(body: &[u8], gzip: bool) -> Result<Commands, Fault> {
    CommandReader::new(gzip).read(body)
}

fn packet(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}

#[test]
fn smart_http_is_known_by_its_paths_and_nothing_else() {
    let fetch = of("GET", "/a/b.git/info/refs?service=git-upload-pack")
        .unwrap()
        .unwrap();
    assert_eq!(fetch.repository, "/a/b");
    assert_eq!(fetch.operation, GitOperation::DiscoverFetch);
    let push = of("GET", "/a/b/info/refs?service=git-receive-pack")
        .unwrap()
        .unwrap();
    assert_eq!(push.operation, GitOperation::DiscoverPush);
    let post = of("POST", "/a/b.git/git-upload-pack").unwrap().unwrap();
    assert_eq!(post.operation, GitOperation::Fetch);
    assert_eq!(of("GET", "/a/b.git/info/refs"), Ok(None));
    // Dumb pushes are plain PUTs: no git fact makes them more than that.
    assert_eq!(of("PUT", "/a/b.git/objects/xx"), Ok(None));
    // ATTACK: 078
    for query in [
        "%73ervice=git-receive-pack",
        "service=git-receive-pack&x=1",
        "x&service=git-upload-pack",
        "service=git-receive%2Dpack",
        "service=",
    ] {
        let asked = of("GET", &format!("/a/b.git/info/refs?{query}"));
        assert_eq!(asked, Err(Reason::BadPath), "{query}");
    }
    assert_eq!(
        of("GET", "/a/b.git/git-receive-pack"),
        Err(Reason::BadMethod)
    );
}

// ATTACK: 078
#[test]
fn a_service_in_any_other_spelling_is_no_path_to_send_to() {
    for path in [
        "/a/b.git/GIT-RECEIVE-PACK",
        "/a/b.git/Git-Upload-Pack",
        "/a/b.git/git-receive-pack/",
        "/a/b.git/git-receive-pack/x",
        "/a/b.git/%47it-receive-pack",
    ] {
        assert_eq!(of("POST", path), Err(Reason::BadPath), "{path}");
        assert_eq!(of("PUT", path), Err(Reason::BadPath), "{path}");
        assert_eq!(of("GET", path), Ok(None), "{path}");
    }
    for path in ["/a/git-receive-packs", "/a/my-git-upload-pack"] {
        assert_eq!(of("POST", path), Ok(None), "{path}");
    }
}

#[test]
fn commands_are_read_up_to_the_flush() {
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let body = [
        packet(&format!(
            "{zero} {one} refs/heads/a\0report-status agent=x\n"
        )),
        packet(&format!("{one} {one} refs/heads/b")),
        packet(&format!("{one} {zero} refs/tags/c\n")),
        "0000".to_owned(),
    ]
    .concat();
    let Commands::Whole(updates) = read_commands(body.as_bytes(), false).unwrap() else {
        panic!("not whole")
    };
    let changes: Vec<_> = updates
        .iter()
        .map(|u| (u.name.as_str(), u.change))
        .collect();
    assert_eq!(
        changes,
        [
            ("refs/heads/a", RefChange::Create),
            ("refs/heads/b", RefChange::Update),
            ("refs/tags/c", RefChange::Delete),
        ]
    );
    for end in 0..body.len() {
        assert_eq!(
            read_commands(&body.as_bytes()[..end], false),
            Ok(Commands::More),
            "{end}"
        );
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(read_commands(&packed, true), Ok(Commands::Whole(updates)));
    // The probe that git sends before a large push.
    assert_eq!(read_commands(b"0000", false), Ok(Commands::Whole(vec![])));
}

#[test]
fn odd_commands_are_refused() {
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let double = packet(&format!("{zero} {one} refs/heads/a")).repeat(2);
    let cases = [
        "zzzz".to_owned(),
        "0001".to_owned(),
        "0004".to_owned(),
        "+004".to_owned(),
        double,
        packet("push-cert\0x"),
        packet(&format!("shallow {one}")),
        packet(&format!("{zero} {one} HEAD")),
        packet(&format!("{zero} {one} refs/heads/../x")),
        packet(&format!("{zero} {one} refs/heads/a b")),
        packet(&format!("{zero} {one} refs/heads/a\nb")),
        packet(&format!("{zero} {one} refs//a")),
        packet(&format!("{zero} {one} refs/heads/a.lock")),
        packet(&format!("{zero}  {one} refs/heads/a")),
        packet(&format!("{} {one} refs/heads/a", "A".repeat(40))),
        packet(&format!("{} {one} refs/heads/a", "0".repeat(39))),
        "fff0".to_owned() + &"x".repeat(70_000),
    ];
    for body in cases {
        assert!(read_commands(body.as_bytes(), false).is_err(), "{body}");
    }
    assert!(read_commands(b"0000000000000000", true).is_err());
}

#[test]
fn large_files_are_known_by_their_places_and_nothing_else() {
    let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
    let object = format!("/a/b.git/info/lfs/objects/{oid}");
    for (method, path, operation) in [
        (
            "POST",
            "/a/b.git/info/lfs/objects/batch",
            GitOperation::LfsBatch,
        ),
        (
            "POST",
            "/a/b/info/lfs/locks/verify",
            GitOperation::LfsVerifyLocks,
        ),
        ("GET", &object, GitOperation::LfsDownload),
        ("PUT", &object, GitOperation::LfsUpload),
    ] {
        let facts = of(method, path).unwrap().unwrap();
        assert_eq!(
            (facts.repository.as_str(), facts.operation),
            ("/a/b", operation)
        );
    }
    for (method, path) in [
        ("GET", "/a/b.git/info/lfs/objects/batch"),
        ("POST", "/a/b.git/info/lfs/objects/batch/"),
        ("POST", "/a/b.git/info/lfs/objects/batch?x"),
        ("POST", "/a/b.git/info/lfs/locks"),
        ("POST", "/info/lfs/objects/batch"),
        ("DELETE", &object),
        ("GET", &object.to_uppercase()),
        ("PUT", "/a/b.git/info/lfs/objects/4d7a"),
    ] {
        assert_eq!(of(method, path), Ok(None), "{method} {path}");
    }
}

/// What was read of a push is not read again: one that comes byte by byte costs what it is long,
/// packed or not, and says the same.
#[test]
fn a_push_that_comes_byte_by_byte_costs_what_it_is_long() {
    let old = "1".repeat(40);
    let new = "2".repeat(40);
    let mut text = String::new();
    for number in 0..480 {
        text += &packet(&format!("{old} {new} refs/heads/agent/{number:0>24}"));
    }
    text += "0000";
    for gzip in [false, true] {
        let body = if gzip {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            gz.write_all(text.as_bytes()).unwrap();
            gz.finish().unwrap()
        } else {
            text.clone().into_bytes()
        };
        let whole = read_commands(&body, gzip).unwrap();
        let mut commands = CommandReader::new(gzip);
        let began = std::time::Instant::now();
        let ended = (0..body.len()).find_map(|end| {
            let read = commands.read(&body[..=end]).unwrap();
            (read != Commands::More).then_some(read)
        });
        let took = began.elapsed();
        assert_eq!(ended, Some(whole), "{gzip}");
        assert!(took.as_secs() < 5, "{} bytes: {took:?}", body.len());
    }
}
