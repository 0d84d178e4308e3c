//! The headers of a batch handler's messages, as far as the outbox reads them.

use std::fmt::{self, Formatter};

use bytes::Bytes;
use ruststream::runtime::RETRY_COUNT_HEADER;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::OUTBOX_ID_HEADER;
use crate::retry::parse_count;

/// The headers of a batch handler's messages that the outbox reads: the `H` of its
/// `&[Message<H, T>]`.
///
/// A header type of the service's own flattens it, and gives it out with `AsRef`. It takes any
/// bytes: the runtime drops an element whose headers cannot be read.
#[derive(Debug, Clone, Default)]
pub struct OutboxHeaders {
    pub(super) id: Option<Bytes>,
    pub(super) retries: u64,
}

impl AsRef<Self> for OutboxHeaders {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<'de> Deserialize<'de> for OutboxHeaders {
    /// As a map, since the names of headers have no case.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = OutboxHeaders;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the headers of a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OutboxHeaders, A::Error> {
        let mut headers = OutboxHeaders::default();
        while let Some(name) = map.next_key::<String>()? {
            if name.eq_ignore_ascii_case(OUTBOX_ID_HEADER) {
                let AnyBytes(id) = map.next_value()?;
                headers.id = Some(id);
            } else if name.eq_ignore_ascii_case(RETRY_COUNT_HEADER) {
                let AnyBytes(count) = map.next_value()?;
                headers.retries = parse_count(std::str::from_utf8(&count).ok());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(headers)
    }
}

/// The value of a header, text or not.
struct AnyBytes(Bytes);

impl<'de> Deserialize<'de> for AnyBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = AnyBytes;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a header")
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<AnyBytes, E> {
        Ok(AnyBytes(Bytes::copy_from_slice(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<AnyBytes, E> {
        Ok(AnyBytes(Bytes::copy_from_slice(value.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use ruststream::HeaderMap;
    use serde::Deserialize;

    use super::OutboxHeaders;

    #[derive(Deserialize)]
    struct Own {
        tenant: String,
        #[serde(flatten)]
        outbox: OutboxHeaders,
    }

    fn headers(id: &'static [u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("X-RustStream-Outbox-Id", id.to_vec());
        headers.insert("x-ruststream-retry-count", b"3".to_vec());
        headers.insert("tenant", b"7".to_vec());
        headers.insert("other", vec![0xff]);
        headers
    }

    #[test]
    fn an_id_is_read_whatever_its_bytes() {
        for id in [&b"12"[..], &[0xff, 0xfe]] {
            let read: OutboxHeaders = headers(id).to_typed().unwrap();
            assert_eq!(read.id.as_deref(), Some(id));
            assert_eq!(read.retries, 3);
        }
        let read: OutboxHeaders = HeaderMap::new().to_typed().unwrap();
        assert!(read.id.is_none() && read.retries == 0);
    }

    #[test]
    fn a_header_type_of_the_services_own_flattens_it() {
        for id in [&b"12"[..], &[0xff, 0xfe]] {
            let read: Own = headers(id).to_typed().unwrap();
            assert_eq!(read.tenant, "7");
            assert_eq!(read.outbox.id.as_deref(), Some(id));
            assert_eq!(read.outbox.retries, 3);
        }
    }
}
