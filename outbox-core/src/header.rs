//! The headers of a message: the one that carries the record's id, and the column that keeps them.

use std::collections::BTreeMap;

use bytes::Bytes;
use ruststream::HeaderMap;
use serde::Deserialize;

/// The header that carries the id of a message's record. It is lower case and kept as it is by
/// every broker.
pub const OUTBOX_ID_HEADER: &str = "x-ruststream-outbox-id";

/// The text that a headers column keeps: a JSON object with a string for each value that is UTF-8
/// and an array of numbers, the value's bytes, for any other.
#[must_use]
pub fn encode_headers(headers: &HeaderMap) -> String {
    let object = headers
        .iter()
        .map(|(name, value)| {
            let value = match std::str::from_utf8(value) {
                Ok(text) => serde_json::Value::from(text),
                Err(_) => serde_json::Value::from(value),
            };
            (name.to_owned(), value)
        })
        .collect();
    serde_json::Value::Object(object).to_string()
}

/// Reads back what [`encode_headers`] wrote.
///
/// # Errors
///
/// If the text is not a JSON object of strings and byte arrays.
pub fn decode_headers(text: &str) -> Result<HeaderMap, serde_json::Error> {
    let values: BTreeMap<String, Value> = serde_json::from_str(text)?;
    Ok(values
        .into_iter()
        .map(|(name, value)| (name, value.into_bytes()))
        .collect())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Text(text) => Bytes::from(text),
            Self::Bytes(bytes) => Bytes::from(bytes),
        }
    }
}
