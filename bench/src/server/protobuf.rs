//! The part of protocol buffers that two questions need.

#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    pub(crate) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u32, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }

    /// The message as gRPC sends it: the compression flag, the length, the message.
    pub(crate) fn framed(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        [&[0][..], &length.to_be_bytes(), &self.0].concat()
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 128 {
            self.0.push((value & 127) as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_with_their_numbers() {
        let inner = Message::default().text(1, "a");
        let message = Message::default().number(1, 300).message(2, &inner);
        assert_eq!(message.framed(), [0, 0, 0, 0, 8, 8, 172, 2, 18, 3, 10, 1, b'a']);
    }
}
