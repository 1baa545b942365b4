// SPDX-License-Identifier: Apache-2.0
//! Seeded faults of the reference: the random worlds must tell every one of them apart, else they
//! would not notice the same fault in `decide`.

/// One clause gone wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    KilledStillActs,
    StaleGenerationActs,
    WildcardSpansLabels,
    QueryTakesPart,
    PhaseIgnored,
    NarrowIgnored,
    ExpiryOffByOne,
    FirstBindingWins,
    StrayPlaceholderPasses,
    ForeignPlaceholderPasses,
    OwnCredentialAtBoundHost,
    GitFallsBackToRules,
    RefStarSpansSegments,
    AskBeatsDeny,
    LaterToolRuleWins,
    WebsocketPassesAsRequest,
    DialectIgnored,
    DialectFallsBackToRules,
    DeniedIgnored,
    SecondParameterPasses,
    OwnSegmentPasses,
    UnreadBodyPasses,
    FilledNowhere,
}

pub(crate) const FAULTS: [Fault; 23] = [
    Fault::KilledStillActs,
    Fault::StaleGenerationActs,
    Fault::WildcardSpansLabels,
    Fault::QueryTakesPart,
    Fault::PhaseIgnored,
    Fault::NarrowIgnored,
    Fault::ExpiryOffByOne,
    Fault::FirstBindingWins,
    Fault::StrayPlaceholderPasses,
    Fault::ForeignPlaceholderPasses,
    Fault::OwnCredentialAtBoundHost,
    Fault::GitFallsBackToRules,
    Fault::RefStarSpansSegments,
    Fault::AskBeatsDeny,
    Fault::LaterToolRuleWins,
    Fault::WebsocketPassesAsRequest,
    Fault::DialectIgnored,
    Fault::DialectFallsBackToRules,
    Fault::DeniedIgnored,
    Fault::SecondParameterPasses,
    Fault::OwnSegmentPasses,
    Fault::UnreadBodyPasses,
    Fault::FilledNowhere,
];
