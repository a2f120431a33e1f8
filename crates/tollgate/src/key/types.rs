//! The types that implement [`Key`].

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use super::buffer::Buffer;
use super::frame::Frame;
use super::value::Value;
use super::{Form, Key, KeyRef, Parts, Source, Tagged};

macro_rules! bytes_keys {
    ($($type:ty),+) => {
        $(impl Key for $type {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                f(KeyRef::plain(self.as_ref()))
            }
        })+
    };
}

bytes_keys!(str, String, [u8], Vec<u8>, Cow<'_, [u8]>);

impl Key for Cow<'_, str> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::plain(self.as_bytes()))
    }
}

impl<const N: usize> Key for [u8; N] {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::plain(self))
    }
}

impl Value {
    #[inline(always)]
    fn with_key<R>(self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let text = OnceLock::new();
        f(KeyRef { form: Form::Plain, source: Source::Value(self, &text) })
    }
}

/// Calls `f` with the text of a value that has no compact form.
fn with_text<R>(value: impl fmt::Display, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
    let mut text = Buffer::new();
    text.write(value);
    f(KeyRef::plain(text.bytes()))
}

macro_rules! unsigned_keys {
    ($($type:ty),+) => {
        $(impl Key for $type {
            #[inline(always)]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                Value::Number(*self as u64).with_key(f)
            }
        })+
    };
}

unsigned_keys!(u8, u16, u32, u64, usize);

macro_rules! signed_keys {
    ($($type:ty),+) => {
        $(impl Key for $type {
            #[inline(always)]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                let amount = self.unsigned_abs() as u64;
                let value = if *self < 0 { Value::Negative(amount) } else { Value::Number(amount) };
                value.with_key(f)
            }
        })+
    };
}

signed_keys!(i8, i16, i32, i64, isize);

impl Key for u128 {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match u64::try_from(*self) {
            Ok(number) => number.with_key(f),
            Err(_) => with_text(self, f),
        }
    }
}

impl Key for i128 {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match u64::try_from(self.unsigned_abs()) {
            Ok(amount) if *self < 0 => Value::Negative(amount).with_key(f),
            Ok(number) => number.with_key(f),
            Err(_) => with_text(self, f),
        }
    }
}

impl Key for bool {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        (if *self { "true" } else { "false" }).with_key(f)
    }
}

impl Key for char {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        self.encode_utf8(&mut [0; 4]).with_key(f)
    }
}

impl Key for Ipv4Addr {
    #[inline(always)]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        Value::V4(self.to_bits()).with_key(f)
    }
}

impl Key for Ipv6Addr {
    #[inline(always)]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        Value::V6((*self).into()).with_key(f)
    }
}

impl Key for IpAddr {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let value = match *self {
            IpAddr::V4(address) => Value::V4(address.to_bits()),
            IpAddr::V6(address) => Value::V6(address.into()),
        };
        value.with_key(f)
    }
}

impl Key for SocketAddrV4 {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        Value::SocketV4(self.ip().to_bits(), self.port()).with_key(f)
    }
}

impl Key for SocketAddrV6 {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        if self.scope_id() == 0 {
            Value::SocketV6((*self.ip()).into(), self.port()).with_key(f)
        } else {
            with_text(self, f)
        }
    }
}

impl Key for SocketAddr {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            SocketAddr::V4(address) => address.with_key(f),
            SocketAddr::V6(address) => address.with_key(f),
        }
    }
}

/// `None` is a tuple of zero parts. No Rust tuple that is a key has zero parts.
impl<K: Key> Key for Option<K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            Some(key) => key.with_key(f),
            None => f(KeyRef::from_parts(Form::Tuple, &[])),
        }
    }
}

macro_rules! pointer_keys {
    ($($type:ty),+) => {
        $(impl<K: Key + ?Sized> Key for $type {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                (**self).with_key(f)
            }
        })+
    };
}

pointer_keys!(&K, &mut K, Box<K>, Arc<K>, Rc<K>);

impl Frame {
    #[inline(always)]
    fn with_key<R>(&self, form: Form, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let text = OnceLock::new();
        f(KeyRef { form, source: Source::Frame(self, &text) })
    }
}

macro_rules! tuple_keys {
    ($(($($name:ident $index:tt),+))+) => {
        $(impl<$($name: Key),+> Key for ($($name,)+) {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                let mut frame = Frame::new();
                $(frame.part(&self.$index);)+
                frame.with_key(Form::Tuple, f)
            }
        })+
    };
}

tuple_keys! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

impl<T: Key, K: Key> Key for Tagged<T, K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let mut frame = Frame::new();
        frame.part(&self.0);
        frame.part(&self.1);
        frame.with_key(Form::Tagged, f)
    }
}

impl<K: Key> Key for Parts<'_, K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let mut frame = Frame::new();
        self.0.iter().for_each(|part| frame.part(part));
        frame.with_key(Form::Tuple, f)
    }
}

impl Key for KeyRef<'_> {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::OwnedKey;

    #[test]
    fn numbers_and_addresses_are_the_same_keys_as_their_text() {
        fn check(key: impl Key + fmt::Display) {
            let text = key.to_string();
            key.with_key(|key| {
                assert_eq!(key.bytes(), text.as_bytes());
                assert_eq!(key, KeyRef::plain(text.as_bytes()));
                key.with_compact(|compact| {
                    text.with_key(|text| text.with_compact(|text| assert_eq!(compact, text)));
                    assert_eq!(compact.to_owned_key().as_key_ref(), key);
                });
            });
            // The key must also equal its text as part of a tuple.
            (&key, "x", (&key,)).with_key(|tuple| {
                let texts = (&text, "x", (&text,));
                assert!(texts.with_key(|texts| texts == tuple));
                tuple.with_compact(|compact| {
                    let framed = KeyRef::from_parts(Form::Tuple, tuple.bytes());
                    framed.with_compact(|framed| assert_eq!(compact, framed));
                    assert_eq!(compact.to_owned_key().as_key_ref(), tuple);
                });
            });
        }
        check(0_u8);
        check(u64::MAX);
        check(u128::from(u64::MAX) + 1);
        check(u128::MAX);
        check(-1_i8);
        check(i64::MIN);
        check(-i128::from(u64::MAX));
        check(i128::MIN);
        check(true);
        check('7');
        for text in ["0.0.0.0", "1.22.133.9", "10.100.200.255", "255.255.255.255"] {
            let address: Ipv4Addr = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            check(address);
            check(IpAddr::V4(address));
            check(SocketAddr::from((address, 443)));
        }
        for text in ["::", "2001:db8::1", "::ffff:192.0.2.1"] {
            let address: Ipv6Addr = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            check(address);
            check(SocketAddr::from((address, 443)));
        }
        check("[fe80::1%3]:80".parse::<SocketAddr>().unwrap_or_else(|e| panic!("{e}")));
    }

    #[test]
    fn bytes_that_are_not_a_frame_equal_no_tuple() {
        let compact = |form, bytes: &[u8]| {
            KeyRef::from_parts(form, bytes)
                .with_compact(|compact| OwnedKey::new(&compact.to_owned_key()))
        };
        let number = (7_u64,).with_key(|key| key.with_compact(|key| format!("{key:?}")));
        for bytes in [&b"x"[..], b"\0\x05a", b"\x04\x08\x07\0\0\0\0\0\0\0"] {
            let key = KeyRef::from_parts(Form::Tuple, bytes);
            assert_ne!(key.with_compact(|key| format!("{key:?}")), number);
            assert_eq!(compact(Form::Tuple, bytes).as_key_ref(), key);
            assert_ne!(compact(Form::Tuple, bytes), compact(Form::Tagged, bytes));
        }
    }
}
