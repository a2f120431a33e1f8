//! Deserializes a part of a tree with serde, so that a section of settings is one struct.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::problem::TextPosition;
use super::tree::{Name, Node, Value};
use super::value::Wrong;

/// Deserializes a node.
pub(crate) fn from_node<T: DeserializeOwned>(node: &Node) -> Result<T, Wrong> {
    T::deserialize(node)
        .map_err(|error| Wrong { at: error.at.unwrap_or(node.at), message: error.message })
}

/// A message, and the place of the mistake once it is known.
#[derive(Debug)]
pub(crate) struct Misread {
    at: Option<TextPosition>,
    message: String,
}

impl Misread {
    fn or_at(mut self, at: TextPosition) -> Misread {
        self.at.get_or_insert(at);
        self
    }
}

impl std::fmt::Display for Misread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misread {}

impl Error for Misread {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Misread { at: None, message: message.to_string() }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        let result = match &self.value {
            Value::Nothing => visitor.visit_unit(),
            Value::Text(text) => visitor.visit_str(text),
            Value::Plain(text) => plain(text, visitor),
            Value::List(nodes) => visitor.visit_seq(List(nodes.iter())),
            Value::Table(table) => visitor.visit_map(Entries { rest: table.iter(), value: None }),
        };
        result.map_err(|error: Misread| error.or_at(self.at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.value {
            Value::Nothing => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match &self.value {
            // YAML strings need no quotes.
            Value::Plain(text) | Value::Text(text) => {
                visitor.visit_str(text).map_err(|error: Misread| error.or_at(self.at))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.deserialize_str(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        let word = match &self.value {
            Value::Plain(text) | Value::Text(text) => text.clone(),
            _ => {
                let message =
                    format!("expected one of {}, found {}", variants.join(", "), self.kind());
                return Err(Misread { at: Some(self.at), message });
            }
        };
        let word: StringDeserializer<Misread> = word.into_deserializer();
        word.deserialize_enum(name, variants, visitor).map_err(|error| error.or_at(self.at))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Visits a number or a boolean if the text looks like one, else a string.
fn plain<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Misread> {
    if let Ok(number) = text.parse() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = text.parse() {
        return visitor.visit_i64(number);
    }
    match text {
        "true" => visitor.visit_bool(true),
        "false" => visitor.visit_bool(false),
        _ => match text.parse() {
            Ok(number) => visitor.visit_f64(number),
            Err(_) => visitor.visit_str(text),
        },
    }
}

struct List<'a>(std::slice::Iter<'a, Node>);

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
        let Some(node) = self.0.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|error| error.or_at(node.at))
    }
}

struct Entries<'a> {
    rest: std::slice::Iter<'a, (Name, Node)>,
    value: Option<(&'a Name, &'a Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Misread;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misread> {
        let Some((name, node)) = self.rest.next() else { return Ok(None) };
        self.value = Some((name, node));
        let text: StringDeserializer<Misread> = name.text.clone().into_deserializer();
        seed.deserialize(text).map(Some).map_err(|error| error.or_at(name.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misread> {
        let Some((name, node)) = self.value.take() else {
            return Err(Misread::custom("a value without a name"));
        };
        seed.deserialize(node).map_err(|error| {
            let Misread { at, message } = error.or_at(node.at);
            Misread { at, message: format!("{}: {message}", name.text) }
        })
    }
}
