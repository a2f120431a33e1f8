//! Allotments drawn from a shared store and spent without a round trip.
