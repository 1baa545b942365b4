// SPDX-License-Identifier: Apache-2.0
//! The fuzz target of cookies that a far end sets.

use crate::cookies::{Place, SetCookie, kept_of};
use torno_notary_protocol::gate::Keeping;
use torno_policy::names::{BindingId, CredentialName, Endpoint, Host, Port, Scheme};

/// LIMIT: what the jar holds for one binding, and what stands between its cookies.
const LINE_BYTES_MAX: usize = 6 * 1024 + 3 * 16 + 16;

/// Lines of `Set-Cookie`: each cookie has a marker that is a cookie again, without its value, and
/// what is sent is one line of bounded length.
pub fn fuzz_set_cookie(data: &[u8]) {
    let names = (
        Host::parse("www.allow.test"),
        BindingId::parse("b1"),
        CredentialName::parse("c1"),
    );
    let (Ok(host), Ok(binding), Ok(credential)) = names else {
        return;
    };
    let endpoint = Endpoint {
        scheme: Scheme::Https,
        host,
        port: Port::HTTPS,
    };
    let keeping = Keeping {
        binding,
        credential,
        cookies: true,
        tokens: false,
    };
    let place = Place {
        keeping: &keeping,
        endpoint: &endpoint,
        path: "/a/b",
        now: 1_795_910_400,
    };
    let (count, size) = kept_of(place, data);
    assert!(count <= 16 && size <= LINE_BYTES_MAX, "{count}: {size}");
    let cookies = data.split(|b| *b == b'\n');
    let cookies = cookies.filter_map(|line| SetCookie::parse(line, place.now));
    for cookie in cookies {
        assert!(!cookie.has_control(), "a field would end in it");
    }
}
