// SPDX-License-Identifier: Apache-2.0
//! File requests over the link.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use torno_guest_protocol::{
    FileFailure, FileKind, GuestMessage, HostMessage, RequestId, Stream, WriteMode,
};

use crate::rig::Rig;

/// The next message about a file: a program that starts meanwhile says so in between.
fn answer(rig: &mut Rig) -> GuestMessage {
    loop {
        match rig.hear() {
            GuestMessage::ProcessStarted { .. } => {}
            message => return message,
        }
    }
}

fn read(rig: &mut Rig, path: &str, bytes_max: u64) -> (GuestMessage, Vec<u8>) {
    let path = path.to_owned();
    let request = rig.request(|request| HostMessage::ReadFile {
        request,
        path,
        bytes_max,
    });
    let mut last = answer(rig);
    if matches!(last, GuestMessage::FileOpened { .. }) {
        last = answer(rig);
    }
    (last, rig.output(request, Stream::File).to_vec())
}

fn write(rig: &mut Rig, path: &str, write: WriteMode, data: &[u8]) -> GuestMessage {
    let path = path.to_owned();
    let request = rig.request(|request| HostMessage::WriteFile {
        request,
        path,
        mode: 0o7640,
        write,
    });
    rig.send_all(request, Stream::File, data);
    rig.hear()
}

fn failure(message: &GuestMessage) -> FileFailure {
    match message {
        GuestMessage::RequestFailed { code, message, .. } => {
            assert!(!message.is_empty());
            *code
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_written_appended_and_read_back() {
    let mut rig = Rig::start();
    let data: Vec<u8> = (0u32..700_000).flat_map(u32::to_le_bytes).collect();
    let bytes = data.len() as u64;
    match write(&mut rig, "file", WriteMode::CreateNew, &data) {
        GuestMessage::FileWritten { bytes: written, .. } => assert_eq!(written, bytes),
        other => panic!("{other:?}"),
    }
    let (end, content) = read(&mut rig, "file", bytes);
    assert!(matches!(end, GuestMessage::FileRead { bytes: read, .. } if read == bytes));
    assert!(content == data, "bytes differ");
    assert_eq!(
        failure(&read(&mut rig, "file", bytes - 1).0),
        FileFailure::TooLarge
    );
    assert_eq!(
        failure(&write(&mut rig, "file", WriteMode::CreateNew, b"")),
        FileFailure::Exists
    );
    write(&mut rig, "file", WriteMode::Replace, b"one");
    write(&mut rig, "file", WriteMode::Append, b"two");
    assert_eq!(read(&mut rig, "file", 100).1, b"onetwo");
    let mode = std::fs::metadata(rig.workspace.path().join("file"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o640);
}

#[test]
fn special_files_are_refused_at_once() {
    // ATTACK: 174
    let mut rig = Rig::start();
    let setup = "mkfifo fifo; mkdir sub; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; ln -s /dev/zero zero; ln -s /proc/self/mem mem";
    assert_eq!(rig.shell(setup).code(), 0);
    for path in ["fifo", "socket", "sub"] {
        let code = failure(&read(&mut rig, path, 1 << 20).0);
        assert_eq!(code, FileFailure::NotAFile, "read {path}");
        let request = rig.request(|request| HostMessage::WriteFile {
            request,
            path: path.into(),
            mode: 0o600,
            write: WriteMode::Replace,
        });
        assert_eq!(failure(&rig.hear()), FileFailure::NotAFile, "write {path}");
        let _ = request;
    }
    for path in ["zero", "mem", "/proc/kcore", "/dev/zero", "/proc/self/mem"] {
        assert_eq!(
            failure(&read(&mut rig, path, 1 << 20).0),
            FileFailure::Outside,
            "{path}"
        );
    }
}

#[test]
fn a_growing_file_ends_at_the_limit() {
    // ATTACK: 174
    let mut rig = Rig::start();
    let exec = rig.begin(
        &[
            "sh",
            "-c",
            "echo > log; echo set; while :; do echo xxxxxxxxxxxxxxxx >> log; done",
        ],
        None,
    );
    rig.wait_for_output(exec, "set");
    let (end, content) = loop {
        let (end, content) = read(&mut rig, "log", 2_000);
        if !matches!(end, GuestMessage::FileRead { .. }) {
            break (end, content);
        }
    };
    assert_eq!(failure(&end), FileFailure::TooLarge);
    assert!(content.len() <= 2_000);
}

#[test]
fn every_verb_stays_inside() {
    // ATTACK: 168
    let mut rig = Rig::start();
    symlink("/etc", rig.workspace.path().join("etc")).unwrap();
    std::fs::write(rig.workspace.path().join("file"), "").unwrap();
    type Make = fn(RequestId, String) -> HostMessage;
    let verbs: [Make; 8] = [
        |request, path| HostMessage::ReadFile {
            request,
            path,
            bytes_max: 10,
        },
        |request, path| HostMessage::WriteFile {
            request,
            path,
            mode: 0,
            write: WriteMode::Append,
        },
        |request, path| HostMessage::ListDirectory {
            request,
            path,
            after: None,
        },
        |request, path| HostMessage::StatPath { request, path },
        |request, path| HostMessage::MakeDirectory {
            request,
            path,
            mode: 0o700,
            parents: true,
        },
        |request, path| HostMessage::MovePath {
            request,
            from: path,
            to: "x".into(),
            replace: true,
        },
        |request, path| HostMessage::MovePath {
            request,
            from: "file".into(),
            to: path,
            replace: true,
        },
        |request, path| HostMessage::RemovePath {
            request,
            path,
            recursive: true,
        },
    ];
    for (number, make) in verbs.iter().enumerate() {
        for path in [
            "/etc/x",
            "../x",
            "/tmp/../etc/x",
            "etc/x/y",
            "",
            "/proc/1/root",
        ] {
            let answer = rig.ask(|request| make(request, path.into()));
            assert_eq!(
                failure(&answer),
                FileFailure::Outside,
                "verb {number}, `{path}`"
            );
        }
    }
}

#[test]
fn a_recursive_removal_leaves_what_links_point_to() {
    // ATTACK: 176
    let mut rig = Rig::start();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "").unwrap();
    let tree = rig.workspace.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
    symlink(outside.path(), tree.join("a/out")).unwrap();
    symlink("..", tree.join("a/b/loop")).unwrap();
    let remove = |path: &str, recursive| {
        let path = path.to_owned();
        move |request| HostMessage::RemovePath {
            request,
            path,
            recursive,
        }
    };
    assert_eq!(
        failure(&rig.ask(remove("tree", false))),
        FileFailure::NotEmpty
    );
    assert!(matches!(
        rig.ask(remove("tree", true)),
        GuestMessage::PathRemoved { .. }
    ));
    assert!(!tree.exists());
    assert!(outside.path().join("kept").exists());
    assert_eq!(
        failure(&rig.ask(remove("tree", true))),
        FileFailure::NotFound
    );
    assert_eq!(failure(&rig.ask(remove("", true))), FileFailure::Outside);
    assert_eq!(failure(&rig.ask(remove(".", true))), FileFailure::Denied);
}

#[test]
fn a_long_directory_comes_in_pages_by_name() {
    let mut rig = Rig::start();
    let directory = rig.workspace.path().join("many");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..1_500 {
        std::fs::write(
            directory.join(format!("n{number:04}-{}", "x".repeat(100))),
            "",
        )
        .unwrap();
    }
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        let after = names.last().cloned();
        let path = "many".to_owned();
        match rig.ask(|request| HostMessage::ListDirectory {
            request,
            path,
            after,
        }) {
            GuestMessage::DirectoryListed { entries, more, .. } => {
                pages += 1;
                names.extend(entries.into_iter().map(|entry| entry.name));
                if !more {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names.len(), 1_500);
    assert!(names.is_sorted() && pages > 1, "{pages} pages");
}

#[test]
fn directories_and_moves_do_what_they_say() {
    let mut rig = Rig::start();
    let make = |path: &str, parents| {
        let path = path.to_owned();
        move |request| HostMessage::MakeDirectory {
            request,
            path,
            mode: 0o750,
            parents,
        }
    };
    assert!(matches!(
        rig.ask(make("a/b/c", true)),
        GuestMessage::DirectoryMade { .. }
    ));
    assert!(matches!(
        rig.ask(make("a/b/c", true)),
        GuestMessage::DirectoryMade { .. }
    ));
    assert_eq!(failure(&rig.ask(make("a", false))), FileFailure::Exists);
    assert_eq!(failure(&rig.ask(make("x/y", false))), FileFailure::NotFound);
    write(&mut rig, "a/file", WriteMode::CreateNew, b"1");
    write(&mut rig, "a/other", WriteMode::CreateNew, b"22");
    let rename = |replace| {
        move |request| HostMessage::MovePath {
            request,
            from: "a/file".into(),
            to: "a/other".into(),
            replace,
        }
    };
    assert_eq!(failure(&rig.ask(rename(false))), FileFailure::Exists);
    assert!(matches!(
        rig.ask(rename(true)),
        GuestMessage::PathMoved { .. }
    ));
    symlink("a/other", rig.workspace.path().join("link")).unwrap();
    match rig.ask(|request| HostMessage::StatPath {
        request,
        path: "a/other".into(),
    }) {
        GuestMessage::PathDescribed {
            metadata,
            target: None,
            ..
        } => {
            assert_eq!((metadata.kind, metadata.bytes), (FileKind::File, 1));
        }
        other => panic!("{other:?}"),
    }
    match rig.ask(|request| HostMessage::StatPath {
        request,
        path: "link".into(),
    }) {
        GuestMessage::PathDescribed {
            metadata, target, ..
        } => {
            assert_eq!(
                (metadata.kind, target.as_deref()),
                (FileKind::Symlink, Some("a/other"))
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cancelled_write_frees_its_place_and_says_nothing() {
    let mut rig = Rig::start();
    for _ in 0..80 {
        let request = rig.request(|request| HostMessage::WriteFile {
            request,
            path: "part".into(),
            mode: 0o600,
            write: WriteMode::Replace,
        });
        rig.send(request, Stream::File, b"part");
        rig.tell(&HostMessage::CancelRequest { request });
        // Its end is not announced; a round trip gives the agent time to notice.
        assert_eq!(rig.shell("true").code(), 0);
    }
}
