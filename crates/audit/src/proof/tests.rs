// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::tree::leaf_hash;
use proptest::prelude::*;

/// The inputs and roots of the reference implementation of RFC 6962 (Certificate Transparency).
const LEAVES: [&str; 8] = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
];
const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

fn reference() -> Vec<Digest> {
    let decode = |hex: &str| data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
    LEAVES.iter().map(|hex| leaf_hash(&decode(hex))).collect()
}

fn head(leaves: &[Digest]) -> TreeHead {
    frontier(leaves).head()
}

fn frontier(leaves: &[Digest]) -> Frontier {
    let mut tree = Frontier::default();
    leaves.iter().for_each(|leaf| tree.push(*leaf));
    tree
}

fn digests(hex: &[&str]) -> Vec<Digest> {
    hex.iter().map(|hex| Digest::parse(hex).unwrap()).collect()
}

fn whole(leaves: &[Digest]) -> Leaves {
    Leaves::new(Frontier::default(), leaves.to_vec())
}

#[test]
fn roots_are_those_of_the_reference_implementation() {
    let leaves = reference();
    for (size, root) in ROOTS.iter().enumerate() {
        assert_eq!(head(&leaves[..size]).root.to_string(), *root);
    }
}

#[test]
fn proofs_are_those_of_the_reference_implementation() {
    let leaves = whole(&reference());
    let inclusion: [(u64, u64, &[&str]); 3] = [
        (0, 1, &[]),
        (
            0,
            8,
            &[
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ],
        ),
        (
            5,
            8,
            &[
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
    ];
    for (index, size, hashes) in inclusion {
        assert_eq!(leaves.inclusion(index, size).unwrap(), digests(hashes));
    }
    let consistency: [(u64, u64, &[&str]); 3] = [
        (1, 1, &[]),
        (
            6,
            8,
            &[
                "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
        (
            2,
            5,
            &[
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            ],
        ),
    ];
    for (old, new, hashes) in consistency {
        assert_eq!(leaves.consistency(old, new).unwrap(), digests(hashes));
    }
}

#[test]
fn every_proof_of_every_small_tree_checks_and_no_other_place_or_head_does() {
    let many: Vec<Digest> = (0..33_u8).map(|n| leaf_hash(&[n])).collect();
    let leaves = whole(&many);
    for size in 1..=33_u64 {
        let tree = head(&many[..usize::try_from(size).unwrap()]);
        for index in 0..size {
            let leaf = many[usize::try_from(index).unwrap()];
            let proof = leaves.inclusion(index, size).unwrap();
            check_inclusion(&leaf, index, &tree, &proof).unwrap();
            let elsewhere = (index + 1) % size;
            if elsewhere != index {
                assert!(check_inclusion(&leaf, elsewhere, &tree, &proof).is_err());
            }
            assert!(check_inclusion(&leaf_hash(b"x"), index, &tree, &proof).is_err());
            for other in [shorter(&proof), longer(&proof)].into_iter().flatten() {
                let checked = check_inclusion(&leaf, index, &tree, &other);
                assert_eq!(checked, Err(ProofError::Length));
            }
        }
        for old in 0..=size {
            let before = head(&many[..usize::try_from(old).unwrap()]);
            let proof = leaves.consistency(old, size).unwrap();
            check_consistency(&before, &tree, &proof).unwrap();
            for other in [shorter(&proof), longer(&proof)].into_iter().flatten() {
                let checked = check_consistency(&before, &tree, &other);
                assert_eq!(checked, Err(ProofError::Length), "{old} {size}");
            }
        }
    }
}

fn shorter(proof: &[Digest]) -> Option<Vec<Digest>> {
    proof.split_last().map(|(_, rest)| rest.to_vec())
}

fn longer(proof: &[Digest]) -> Option<Vec<Digest>> {
    Some([proof, &[leaf_hash(b"more")]].concat())
}

// ATTACK: 221
#[test]
fn two_histories_have_no_proof_between_them() {
    let mut many: Vec<Digest> = (0..20_u8).map(|n| leaf_hash(&[n])).collect();
    let old = head(&many[..11]);
    let honest = head(&many);
    let proof = whole(&many).consistency(11, 20).unwrap();
    check_consistency(&old, &honest, &proof).unwrap();

    many[3] = leaf_hash(b"forged");
    let forged = head(&many);
    let own = whole(&many).consistency(11, 20).unwrap();
    for attempt in [&proof, &own] {
        assert_eq!(
            check_consistency(&old, &forged, attempt),
            Err(ProofError::Root)
        );
    }
    assert_eq!(
        check_consistency(&honest, &forged, &[]),
        Err(ProofError::Root)
    );
    assert_eq!(
        check_consistency(&forged, &old, &[]),
        Err(ProofError::Range)
    );
}

#[test]
fn a_pruned_log_still_proves_what_its_frontier_knows() {
    let many: Vec<Digest> = (0..20_u8).map(|n| leaf_hash(&[n])).collect();
    for gone in 0..20 {
        let leaves = Leaves::new(frontier(&many[..gone]), many[gone..].to_vec());
        assert_eq!(leaves.size(), 20);
        for old in gone..=20 {
            let proof = leaves.consistency(u64::try_from(old).unwrap(), 20).unwrap();
            check_consistency(&head(&many[..old]), &head(&many), &proof).unwrap();
        }
    }
    let leaves = Leaves::new(frontier(&many[..8]), many[8..].to_vec());
    assert_eq!(leaves.inclusion(3, 20), Err(ProofError::Pruned));
    assert!(leaves.inclusion(8, 20).is_ok());
}

#[test]
fn places_outside_the_tree_have_no_proof() {
    let leaves = whole(&reference());
    assert_eq!(leaves.inclusion(8, 8), Err(ProofError::Range));
    assert_eq!(leaves.inclusion(0, 9), Err(ProofError::Range));
    assert_eq!(leaves.consistency(3, 9), Err(ProofError::Range));
    assert_eq!(leaves.consistency(4, 3), Err(ProofError::Range));
}

#[test]
fn a_frontier_must_fit_its_size() {
    let subtrees = frontier(&reference()[..6]).subtrees().to_vec();
    assert_eq!(
        Frontier::resume(6, subtrees.clone()),
        Ok(frontier(&reference()[..6]))
    );
    assert!(Frontier::resume(7, subtrees.clone()).is_err());
    assert!(Frontier::resume(8, subtrees).is_err());
}

proptest! {
    #[test]
    fn a_changed_proof_never_checks(
        size in 2_u64..200,
        at in any::<prop::sample::Index>(),
        old in any::<prop::sample::Index>(),
        which in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        byte in 0_usize..32,
    ) {
        let many: Vec<Digest> = (0..size).map(|n| leaf_hash(&n.to_be_bytes())).collect();
        let leaves = whole(&many);
        let flip = |proof: &mut Vec<Digest>| {
            let hash = which.index(proof.len());
            let mut bytes = *proof[hash].as_bytes();
            bytes[byte] ^= 1 << bit;
            proof[hash] = Digest::new(bytes);
        };
        let index = at.index(many.len());
        let place = u64::try_from(index).unwrap();
        let mut proof = leaves.inclusion(place, size).unwrap();
        check_inclusion(&many[index], place, &head(&many), &proof).unwrap();
        flip(&mut proof);
        prop_assert!(check_inclusion(&many[index], place, &head(&many), &proof).is_err());

        let before = 1 + old.index(many.len() - 1);
        let mut proof = leaves.consistency(u64::try_from(before).unwrap(), size).unwrap();
        check_consistency(&head(&many[..before]), &head(&many), &proof).unwrap();
        flip(&mut proof);
        prop_assert!(
            check_consistency(&head(&many[..before]), &head(&many), &proof).is_err()
        );
        proof.pop();
        prop_assert!(
            check_consistency(&head(&many[..before]), &head(&many), &proof).is_err()
        );
    }
}
