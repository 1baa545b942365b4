// SPDX-License-Identifier: Apache-2.0
//! What a guest's messages are called in the log.

use torno_guest_protocol::GuestMessage;

/// The message's kind, for the log; nothing of its content.
pub(super) fn kind_of(message: &GuestMessage) -> &'static str {
    match message {
        GuestMessage::Hello { .. }
        | GuestMessage::MachineUnusable { .. }
        | GuestMessage::MachineReady {} => "hello",
        GuestMessage::ProcessStarted { .. } => "process_started",
        GuestMessage::ProcessEnded { .. } => "process_ended",
        GuestMessage::ProcessFailed { .. } => "process_failed",
        GuestMessage::FileOpened { .. }
        | GuestMessage::FileRead { .. }
        | GuestMessage::FileWritten { .. }
        | GuestMessage::DirectoryListed { .. }
        | GuestMessage::PathDescribed { .. }
        | GuestMessage::DirectoryMade { .. }
        | GuestMessage::PathMoved { .. }
        | GuestMessage::PathRemoved { .. }
        | GuestMessage::WorkspaceFilled { .. }
        | GuestMessage::DirectoryShown { .. }
        | GuestMessage::WorkspacePacked { .. }
        | GuestMessage::RequestFailed { .. } => "file answer",
        GuestMessage::ConnectionOpened { .. } | GuestMessage::ConnectionClosed { .. } => {
            "connection"
        }
    }
}
