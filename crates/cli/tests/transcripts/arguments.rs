// SPDX-License-Identifier: Apache-2.0
//! What is said about wrong arguments, as goldens: a change of these texts is a change of the
//! product. Set `TORNO_GOLDEN=write` to write them anew, then read the difference.

use crate::home::Home;

const CASES: [&[&str]; 16] = [
    &[],
    &["run"],
    &["run", "--", "true", "--isolation"],
    &["run", "--isolation", "none", "--", "true"],
    &["run", "--allow", "https://a.example", "--", "true"],
    &["run", "--secret", "Api=X", "--", "true"],
    &["run", "--wall", "1w", "--", "true"],
    &["run", "true"],
    &["secret", "put", "Api"],
    &["secret", "bind", "api", "--host", "*.example.org"],
    &[
        "secret",
        "bind",
        "api",
        "--host",
        "a.example",
        "--basic",
        "x",
        "--header",
        "y",
    ],
    &["secret", "bind", "api", "--template", "nobody"],
    &[
        "secret",
        "bind",
        "api",
        "--host",
        "a.example",
        "--in",
        "cookie:x",
    ],
    &["policy", "explain", "--session", "s1", "get", "a.example"],
    &["audit", "verify", "--head", "7"],
    &["kill"],
];

#[test]
fn wrong_arguments_are_refused_with_125_and_a_reason() {
    let home = Home::alone();
    let mut said = String::new();
    for case in CASES {
        let ran = home.torno(case);
        // `-- true --isolation` is all the command's own: it fails later, for want of a daemon.
        assert_eq!((ran.exit, ran.out.as_str()), (125, ""), "{case:?}");
        said.push_str(&format!("$ torno {}\n{}\n", case.join(" "), ran.err));
    }
    let run = home.directory().display().to_string();
    check("arguments.txt", &said.replace(&run, "HOME"));
}

#[test]
fn help_is_an_answer() {
    let home = Home::alone();
    let ran = home.torno(&["run", "--help"]).expect(0);
    for taught in ["124 at the time limit", "Examples:", "--workspace <MODE>"] {
        assert!(ran.out.contains(taught), "{taught}\n{}", ran.out);
    }
    check("help.txt", &home.torno(&["--help"]).expect(0).out);
    let ran = home.torno(&["--version"]).expect(0);
    assert!(ran.out.starts_with("torno "), "{}", ran.out);
    let ran = home.torno(&["completions", "bash"]).expect(0);
    assert!(ran.out.contains("_torno"), "{}", ran.out);
}

#[track_caller]
fn check(name: &str, said: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name);
    if std::env::var_os("TORNO_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, said).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(said == expected, "{} differs:\n{said}", file.display());
}
