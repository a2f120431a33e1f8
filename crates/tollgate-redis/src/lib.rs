//! Redis and Valkey as a store.
