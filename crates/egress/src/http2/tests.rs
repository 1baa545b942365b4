// SPDX-License-Identifier: Apache-2.0
//! Both edges against peers that speak HTTP/2, well and badly.
