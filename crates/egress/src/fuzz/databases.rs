// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets of what PostgreSQL's clients say.

use crate::postgres::frame::{FROM_CLIENT_MAX, put, take};
use crate::postgres::startup::{self, First};
use crate::postgres::statement::{Class, judge};

/// A first packet is written as it was understood, and so are messages behind it.
pub fn fuzz_postgres_messages(data: &[u8]) {
    let mut rest = data;
    if let Ok(Some((first, length))) = startup::read(data) {
        rest = data.get(length..).unwrap_or_default();
        if let First::Start(startup) = first {
            let written = startup.packet(&[]);
            let again = startup::read(&written);
            assert_eq!(again, Ok(Some((First::Start(startup), written.len()))));
        }
    }
    let mut bytes = bytes::BytesMut::from(rest);
    let mut written = Vec::new();
    while let Ok(Some(frame)) = take(&mut bytes, FROM_CLIENT_MAX) {
        put(frame.kind, &frame.body, &mut written);
    }
    assert!(rest.starts_with(&written), "a message was changed");
}

/// Whatever stands before it, a statement that writes is seen, unless the server never reads it;
/// whatever stands behind it, one that gives rights stays one.
pub fn fuzz_postgres_statement(data: &[u8]) {
    let alone = judge(data);
    let behind = [data, b"\n;insert into t values (1)"].concat();
    let both = judge(&behind);
    assert!(both.class >= Class::Write, "{both:?}");
    assert!(both.class >= alone.class, "more text made it less");
    let before = judge(&[b"grant a to b;\n", data].concat());
    assert_eq!(before.class, Class::Authority, "what follows made it less");
}
