// SPDX-License-Identifier: Apache-2.0
//! Every state of a path on both sides, at every kind of path.

use super::*;

fn entry(text: &str, link: bool) -> BaselineEntry {
    BaselineEntry {
        digest: text.to_owned(),
        executable: false,
        link,
    }
}

/// What may lie anywhere.
fn contents() -> Vec<Option<BaselineEntry>> {
    let of = |text| [false, true].map(|link| Some(entry(text, link)));
    let mut all = vec![None];
    all.extend(["a", "b", "c"].into_iter().flat_map(of));
    all
}

/// Kinds of paths: may it be brought out by itself, may it go in?
const PATHS: &[(&str, bool, bool)] = &[
    ("src/main.rs", true, true),
    ("README", true, true),
    (".envrc", false, true),
    ("a/.github/workflows/ci.yml", false, true),
    ("torno.toml", false, true),
    ("x\ny", false, true),
    (".git/objects/ab/cdef", false, true),
    (".git/hooks/pre-commit", false, true),
    ("sub/.GIT/config", false, true),
    (".git/index.lock", false, false),
    ("secret/key", false, false),
    ("secret", false, false),
    ("out", true, false),
];

fn rules() -> FileRules {
    FileRules {
        write: Some(vec!["out/**".into(), "src/**".into(), "**".into()]),
        hide: vec!["secret/**".into()],
    }
}

#[test]
fn nothing_goes_out_that_apply_would_ask_for_and_nobodys_change_is_lost() {
    let (files, mut steps) = (rules(), [0; 5]);
    for (path, goes_out, goes_in) in PATHS {
        for original in &contents() {
            for copy in &contents() {
                for agreed in &contents() {
                    let three = Three {
                        original: original.as_ref(),
                        copy: copy.as_ref(),
                        agreed: agreed.as_ref(),
                    };
                    let step = step(path, &three, &files, &Repositories::default());
                    let about = format!("{path:?}: {original:?} {copy:?} {agreed:?}: {step:?}");
                    match step {
                        Step::Same => assert!(original == copy && copy == agreed, "{about}"),
                        Step::Agree => assert!(original == copy && copy != agreed, "{about}"),
                        Step::Inward => assert!(*goes_in && copy == agreed, "{about}"),
                        Step::Outward => {
                            assert!(*goes_out && original == agreed, "{about}");
                            let is_file = |e: &Option<BaselineEntry>| !e.as_ref().unwrap().link;
                            assert!(is_file(copy), "{about}");
                            assert!(agreed.is_none() || is_file(agreed), "{about}");
                        }
                        Step::Held => {
                            assert_ne!(original, copy, "{about}");
                            // A change of one side alone waits only where it has to.
                            let by_person = original != agreed && copy == agreed;
                            assert!(!(by_person && *goes_in), "{about}");
                        }
                    }
                    let at = [
                        Step::Same,
                        Step::Agree,
                        Step::Inward,
                        Step::Outward,
                        Step::Held,
                    ];
                    let at = at.iter().position(|known| *known == step).unwrap();
                    steps[at] += 1;
                }
            }
        }
    }
    assert_eq!(steps, [91, 546, 378, 27, 3417]);
}

#[test]
fn a_repository_is_one_thing() {
    let of = |paths: &[&str]| -> Baseline {
        let paths = paths.iter();
        paths
            .map(|path| ((*path).to_owned(), entry("a", false)))
            .collect()
    };
    let (before, now) = (of(&[".git/HEAD", "s/.git/HEAD"]), of(&["s/.git/HEAD", "x"]));
    let repositories = Repositories::changed_inside(&now, &before);
    let files = FileRules::default();
    let (old, new) = (entry("a", false), entry("b", false));
    let three = Three {
        original: Some(&new),
        copy: Some(&old),
        agreed: Some(&old),
    };
    let step = |path| step(path, &three, &files, &repositories);
    assert_eq!(step(".git/config"), Step::Held);
    assert_eq!(step("s/.git/config"), Step::Inward);
    assert_eq!(step("x"), Step::Inward);
}
