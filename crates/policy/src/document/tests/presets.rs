// SPDX-License-Identifier: Apache-2.0
//! What a preset may be, and when it counts.

use super::*;

#[test]
fn presets_count_only_when_the_operator_learnt_them() {
    refuse(
        "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = «\"pip\"» }]",
        "preset `pip` is not confirmed on this machine",
    );
    refuse(
        "[[allow]]\npreset = \"pip\"\nhost = «\"a.test\"»",
        "stands alone",
    );
    let host = PresetHost {
        host: HostPattern::Exact(Host::parse("index.example.org").unwrap()),
        scheme: Scheme::Https,
        port: Port::HTTPS,
        methods: vec![Method::parse("GET").unwrap()],
        paths: vec![PathPattern::parse("/**").unwrap()],
    };
    let name = PresetName::parse("pip").unwrap();
    let presets = Presets::shipped().with(name, Preset::of(vec![host]).unwrap());
    let text = "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = \"pip\" }]";
    let grant = parse(text, &presets).unwrap();
    assert_eq!(grant.allow[0].name.as_str(), "preset.pip[0]");
    assert_eq!(grant.allow[0].phase, Phase::Install);
    let shown = describe(&grant).join("\n");
    assert!(shown.contains("while installing (preset pip)"), "{shown}");
    // Who reads the rest takes the name and gets nothing for it.
    assert!(parse(text, &Presets::unread()).unwrap().allow.is_empty());
}

fn pip(text: &str) -> Presets {
    let name = PresetName::parse("pip").unwrap();
    Presets::shipped().with(name, Preset::parse(text).unwrap())
}

#[test]
fn a_presets_text_has_one_spelling_which_reads_as_itself() {
    let text = "[[allow]]\nhost='a.test'\n[[allow]]\nhost = \"*.b.example.org\"\nport = 8443\n\
                methods = [\"GET\", \"POST\"]\npaths = [\"/*%2F*\", \"/x/**\"]\n\
                [[allow]]\nhost = \"c.test\"\nscheme = \"http\"\n";
    let preset = Preset::parse(text).unwrap();
    let spelt = preset.text();
    assert_eq!(Preset::parse(&spelt).unwrap(), preset);
    assert_eq!(Preset::parse(&spelt).unwrap().text(), spelt);
    assert!(spelt.contains("host = \"a.test\"\nmethods = [\"GET\", \"HEAD\"]\npaths = [\"/**\"]"));
    for wrong in [
        "",
        "[[allow]]\nhost = \"a.test\"\nown_credentials = true",
        "[[allow]]\nhost = \"a.test\"\nwebsocket = true",
        "[[allow]]\nhost = \"a.test\"\nregistry = \"npm\"",
        "[[allow]]\nhost = \"a.test\"\npaths = [\"/graphql\"]\ngraphql = [\"query\"]",
        "[[allow]]\nhost = \"a.test\"\npaths = [\"/mcp\"]\njsonrpc = [\"ping\"]",
        "[[allow]]\npreset = \"npm\"",
        "[[allow]]\nhost = \"*.com\"",
        "[[allow]]\nhost = \"any\"",
        "[[allow]]\nhost = \"a.test\"\n[secret.x]\nenv = \"X\"",
        "[[allow]]\nhost = \"169.254.169.254\"",
    ] {
        assert!(Preset::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_accepted_digest_covers_the_presets_as_they_stood() {
    let narrow = pip("[[allow]]\nhost = \"a.test\"\npaths = [\"/x/**\"]");
    let wide = pip("[[allow]]\nhost = \"a.test\"");
    let other = PresetName::parse("npm").unwrap();
    let npm = Preset::parse("[[allow]]\nhost = \"b.test\"").unwrap();
    for text in [
        "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = \"pip\" }]",
        "[[allow]]\npreset = \"pip\"",
        "[[install.allow]]\npreset = 'pip'\n[install]\nrun = [[\"pip\"]]",
    ] {
        let of = |presets: &Presets| digest_with(text, presets);
        assert_eq!(of(&narrow), of(&narrow));
        assert_ne!(of(&narrow), of(&wide), "{text}");
        assert_ne!(of(&narrow), of(&Presets::shipped()));
        assert_ne!(of(&narrow), digest(text));
        // One that the document does not name takes no part.
        assert_eq!(
            of(&narrow),
            of(&narrow.clone().with(other.clone(), npm.clone()))
        );
    }
    let plain = "[[allow]]\nhost = \"a.test\"";
    assert_eq!(digest_with(plain, &wide), digest(plain));
}
