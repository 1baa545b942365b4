// SPDX-License-Identifier: Apache-2.0
//! Sizes, headers and names of files and functions.

use super::Finding;
use crate::source::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

// LIMIT: the four sizes, from the style guide: what a reader holds in mind at once.
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 5;
const COLUMNS_MAX: usize = 100;
// LIMIT: a directory's list of modules should read as its story.
const MODULES_MAX: usize = 18;
// LIMIT: folders below `src`.
const DEPTH_MAX: usize = 3;

const HEADER: &str = "// SPDX-License-Identifier: Apache-2.0";
const DRAWERS: [&str; 8] = [
    "utils", "util", "common", "helpers", "helper", "misc", "shared", "manager",
];

/// One file by itself.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let place = source.path.display().to_string();
    let mut findings = Vec::new();
    let mut find = |rule, place: String, what| findings.push(Finding { rule, place, what });
    let mut lines = source.text.lines();
    if lines.next() != Some(HEADER) {
        find(
            "header",
            place.clone(),
            format!("the first line is not `{HEADER}`"),
        );
    }
    if !source.all_test && !lines.next().is_some_and(|line| line.starts_with("//!")) {
        find(
            "module-doc",
            place.clone(),
            "the second line does not begin the module's `//!`".to_owned(),
        );
    }
    for (i, (line, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
        // A sentence in a literal may be long; code and comments may not.
        let comment = line.trim_start().starts_with("//");
        let counted = if comment { line } else { code.trim_end() };
        let columns = counted.chars().count();
        if columns > COLUMNS_MAX && !source.all_test {
            let what = format!(
                "line {} has {columns} columns, at most {COLUMNS_MAX}",
                i + 1
            );
            find("columns", place.clone(), what);
        }
    }
    let lines = source.product_lines();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines without tests, at most {FILE_LINES_MAX}; split it");
        find("file-lines", place.clone(), what);
    }
    for function in source.functions() {
        let at = format!("{place}:{}", function.name);
        if function.lines > FUNCTION_LINES_MAX {
            let what = format!(
                "line {}: {} lines, at most {FUNCTION_LINES_MAX}; split it",
                function.line, function.lines
            );
            find("function-lines", at.clone(), what);
        }
        if function.parameters > PARAMETERS_MAX {
            let what = format!(
                "line {}: {} parameters, at most {PARAMETERS_MAX}; make them a type",
                function.line, function.parameters
            );
            find("parameters", at, what);
        }
    }
    findings
}

/// The tree of files.
pub(super) fn check_tree(paths: &[PathBuf]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |rule, path: &Path, what| {
        let place = path.display().to_string();
        findings.push(Finding { rule, place, what });
    };
    let mut modules: BTreeMap<&Path, usize> = BTreeMap::new();
    for path in paths {
        let stem = path
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or_default();
        if stem == "mod" {
            find("mod-rs", path, "use `name.rs` beside `name/`".to_owned());
        }
        if DRAWERS.contains(&stem) {
            find(
                "drawer",
                path,
                format!("`{stem}` says nothing; name what it does"),
            );
        }
        let parts: Vec<_> = path.iter().collect();
        let Some(src) = parts.iter().position(|part| *part == "src") else {
            continue;
        };
        let depth = parts.len() - src - 2;
        if depth > DEPTH_MAX {
            find(
                "depth",
                path,
                format!("{depth} folders below src, at most {DEPTH_MAX}"),
            );
        }
        if let Some(directory) = path.parent()
            && !["lib", "main", "tests"].contains(&stem)
        {
            *modules.entry(directory).or_default() += 1;
        }
    }
    for (directory, count) in modules {
        if count > MODULES_MAX {
            find(
                "modules",
                directory,
                format!("{count} modules, at most {MODULES_MAX}"),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&'static str> {
        let source = Source::new(Path::new("crates/x/src/x.rs"), text.to_owned());
        check(&source).into_iter().map(|f| f.rule).collect()
    }

    const HEAD: &str = "// SPDX-License-Identifier: Apache-2.0\n//! Doc.\n";

    #[test]
    fn a_file_in_shape_has_no_finding() {
        assert!(rules(&format!("{HEAD}fn f(a: u8) {{}}\n")).is_empty());
    }

    #[test]
    fn each_size_is_seen_when_it_is_over() {
        assert_eq!(rules("fn f() {}\n"), ["header", "module-doc"]);
        let wide = format!("{HEAD}// {}\n", "x".repeat(98));
        assert_eq!(rules(&wide), ["columns"]);
        let long_file = format!("{HEAD}{}", "const A: u8 = 1;\n".repeat(399));
        assert_eq!(rules(&long_file), ["file-lines"]);
        let long_function = format!("{HEAD}fn f() {{\n{}}}\n", "g();\n".repeat(69));
        assert_eq!(rules(&long_function), ["function-lines"]);
        let many = format!("{HEAD}fn f(a: A, b: B, c: C, d: D, e: E, f: F) {{}}\n");
        assert_eq!(rules(&many), ["parameters"]);
    }

    #[test]
    fn tests_may_be_long() {
        let body = "g();\n".repeat(500);
        let text = format!("{HEAD}#[cfg(test)]\nmod tests {{\nfn f() {{\n{body}}}\n}}\n");
        assert!(rules(&text).is_empty());
    }

    #[test]
    fn names_depth_and_number_of_modules_are_seen() {
        let found = |paths: &[&str]| -> Vec<&'static str> {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            check_tree(&paths).into_iter().map(|f| f.rule).collect()
        };
        assert_eq!(found(&["crates/x/src/a/mod.rs"]), ["mod-rs"]);
        assert_eq!(found(&["crates/x/src/utils.rs"]), ["drawer"]);
        assert_eq!(found(&["crates/x/src/a/b/c/d/e.rs"]), ["depth"]);
        let many: Vec<String> = (0..19).map(|i| format!("crates/x/src/m{i}.rs")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&many), ["modules"]);
    }
}
