//! No bytes of a server make the parser panic or read beyond them, and replies are parsed alike
//! whether they arrive together or byte by byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_memcached::reply::Reply;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((reply, length))) = Reply::parse(rest) {
        assert!(length > 0 && length <= rest.len(), "{reply:?} of {length} bytes");
        // An incomplete reply is no reply, unless it ends earlier by itself.
        let early = (0..length).find_map(|end| Reply::parse(&rest[..end]).ok().flatten());
        assert!(early.is_none(), "{reply:?} was read as {early:?} from a part of it");
        rest = &rest[length..];
    }
});
