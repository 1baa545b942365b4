// SPDX-License-Identifier: Apache-2.0
//! A WebSocket (RFC 6455): the far end's answer 101 is verified and written anew, and from then on
//! frames are, in both directions. No byte of either side passes unread.

mod accept;
pub(crate) mod frame;
mod gather;
mod lane;
pub(crate) mod message;
mod relay;

use super::answer::{self, Answer, Outgoing, Rewrite, push_scrubbed};
use super::download::Download;
use super::upload::Tally;
use super::{ClientSide, Forwarded, Stop, Surroundings};
use crate::connect::Upstream;
use crate::head::{framing, list_members};
use crate::inject::{MessageSlot, push_field};
use crate::normalize::Offer;
use crate::refuse::Fault;
use crate::scrub::Scrubber;
use accept::accept;
pub(crate) use lane::GOODBYE_WAIT;
use relay::relay;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::AsyncWriteExt;

/// The status of an answer that switches protocols.
pub(super) const SWITCHED: u16 = 101;

/// The far end said yes: tells the client so, and carries messages until either side is done.
pub(super) async fn open(
    around: &Surroundings<'_>,
    client: ClientSide<'_>,
    upstream: &mut Upstream,
    (offer, answer): (&Offer, &Answer),
    (sending, mut download): ((Tally<'_>, Option<MessageSlot>), Download<'_>),
) -> Result<Forwarded, Stop> {
    let protocol = verify(answer, offer)?;
    let markers = download.keep_cookies(answer);
    let received = download.received;
    received.status = Some(SWITCHED);
    let mut head = Vec::with_capacity(256);
    let scrubber = download.released.scrubber();
    received.reflected += write_head(
        (answer, offer, protocol),
        (scrubber.as_ref(), download.is_bound, &markers),
        &mut head,
    );
    around.draw.receive(head.len())?;
    received.started.store(true, Ordering::Relaxed);
    let told = client.io.write_all(&head).await;
    told.map_err(|_| Stop::ClientGone)?;
    client.io.flush().await.map_err(|_| Stop::ClientGone)?;
    relay(around, client, upstream, sending, received).await?;
    Ok(Forwarded {
        status: SWITCHED,
        keep_client: false,
        keep_upstream: false,
    })
}

/// RFC 6455 §4.1: what a client must find in an answer 101. Gives the subprotocol.
///
/// ATTACK: 060 – a far end that did not read the handshake as one speaks no WebSocket.
fn verify<'a>(answer: &Answer, offer: &'a Offer) -> Result<Option<&'a str>, Fault> {
    let fault = || Fault::answer("the far end's answer 101 is no handshake of RFC 6455");
    let head = &answer.head;
    let one = |name| head.single(name).map_err(|_| fault());
    let is_http11 = head.first().starts_with(b"HTTP/1.1 ");
    let is_upgrade = one("upgrade")?.is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    let is_named = list_members(head.values("connection")).any(|name| name == "upgrade");
    let accepted = one("sec-websocket-accept")? == Some(accept(&offer.key).as_bytes());
    let is_framed = framing(head) != Ok(None);
    let extends = head.values("sec-websocket-extensions").next().is_some();
    if !(is_http11 && is_upgrade && is_named && accepted) || is_framed || extends {
        return Err(fault());
    }
    match one("sec-websocket-protocol")? {
        None => Ok(None),
        Some(chosen) => {
            let mut offered = offer.protocols.iter();
            let known = offered.find(|known| known.as_bytes() == chosen);
            known.map(|known| Some(known.as_str())).ok_or_else(fault)
        }
    }
}

/// The answer's head for the client, scrubbed. Gives the number of finds.
fn write_head(
    (answer, offer, protocol): (&Answer, &Offer, Option<&str>),
    (scrubber, is_bound, markers): (Option<&Arc<Scrubber>>, bool, &[Vec<u8>]),
    out: &mut Vec<u8>,
) -> u32 {
    let how = Rewrite {
        scrubber,
        outgoing: Outgoing::Nothing,
        is_unpacked: false,
        is_bound,
        markers,
        close: false,
    };
    let mut hits = 0;
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\n");
    push_field(out, b"upgrade", b"websocket");
    push_field(out, b"connection", b"Upgrade");
    push_field(out, b"sec-websocket-accept", accept(&offer.key).as_bytes());
    if let Some(protocol) = protocol {
        let field = crate::head::Field {
            name: "sec-websocket-protocol",
            value: protocol.as_bytes(),
        };
        hits += push_scrubbed(field, scrubber, out);
    }
    let named: Vec<String> = list_members(answer.head.values("connection")).collect();
    for field in answer.head.fields() {
        let is_ours = crate::normalize::is_websocket_field(field.name);
        let is_named = named.iter().any(|name| field.is(name));
        if !is_ours && !is_named && answer::passes(field, &how) {
            hits += push_scrubbed(field, scrubber, out);
        }
    }
    hits += answer::push_markers(&how, out);
    out.extend_from_slice(b"\r\n");
    hits
}
