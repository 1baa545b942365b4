// SPDX-License-Identifier: Apache-2.0
//! The tool layer: the shipped table, and rules of the grant that narrow it.
