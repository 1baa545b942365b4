// SPDX-License-Identifier: Apache-2.0
//! The crate's only `unsafe`: memory that is neither swapped nor dumped.

mod pages;

pub(crate) use pages::LockedPages;
