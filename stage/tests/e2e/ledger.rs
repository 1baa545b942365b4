// SPDX-License-Identifier: Apache-2.0
//! What the record says since a mark, read with the record's own reader.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use torno_audit::{Event, Records};
use torno_policy::decision::Reason;

/// LIMIT: a record follows its act within milliseconds; a machine under load gets this long.
const RECORD_WAIT: Duration = Duration::from_secs(20);
/// How long nothing further may come, so that one is one.
const SETTLE: Duration = Duration::from_millis(300);

/// One session's part of the record.
#[derive(Debug)]
pub(crate) struct Ledger {
    directory: PathBuf,
    session: String,
}

impl Ledger {
    pub(crate) fn new(directory: PathBuf, session: &str) -> Self {
        Self {
            directory,
            session: session.to_owned(),
        }
    }

    /// Where the record ends now.
    pub(crate) fn mark(&self) -> u64 {
        let last = Records::open(&self.directory, 0).unwrap().last();
        last.map_or(0, |record| record.unwrap().seq.0 + 1)
    }

    /// The session's records since a mark.
    pub(crate) fn since(&self, mark: u64) -> Vec<Event> {
        let mine = |record: &torno_audit::line::Record| {
            let session = record.entry.session.as_ref();
            session.is_some_and(|session| session.as_str() == self.session)
        };
        let records = Records::open(&self.directory, mark).unwrap();
        let records = records.map(Result::unwrap).filter(mine);
        records.map(|record| record.entry.event).collect()
    }

    /// Waits for so many records since a mark. No more may follow.
    #[track_caller]
    pub(crate) fn wait_for(&self, mark: u64, count: usize) -> Vec<Event> {
        let end = Instant::now() + RECORD_WAIT;
        while self.since(mark).len() < count {
            assert!(Instant::now() < end, "no record");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(SETTLE);
        let all = self.since(mark);
        assert_eq!(all.len(), count, "{all:#?}");
        all
    }

    /// Records of no session since a mark: nobody's budget pays for them.
    pub(crate) fn nobodys(&self, mark: u64) -> usize {
        let records = Records::open(&self.directory, mark).unwrap();
        records
            .map(Result::unwrap)
            .filter(|record| record.entry.session.is_none())
            .count()
    }

    /// The one record since a mark. Nothing more may follow.
    #[track_caller]
    pub(crate) fn one(&self, mark: u64) -> Event {
        self.wait_for(mark, 1).pop().expect("one")
    }
}

/// Why a record says no.
pub(crate) fn reason(event: &Event) -> Option<Reason> {
    match event {
        Event::RequestDecided(decided) => decided.reason,
        Event::RequestRefused(refused) => Some(refused.reason),
        Event::DialAlarm { reason } => Some(*reason),
        other => panic!("not the record of a refusal: {other:#?}"),
    }
}
