//! How values travel: in the binary form of the column's own type, as the database described it.

use std::fmt::{self, Debug, Formatter};

use bytes::BufMut;
use outbox_core::{Consumer, Record, encode_headers};
use ruststream::OutgoingMessage;

use crate::ColumnError;
use crate::id::{self, Key};
use crate::sql::Sql;

/// The type of a parameter or a column: of a domain, the one below; of an array, its elements'.
#[derive(Clone, Copy)]
pub(crate) struct ColumnType<'a> {
    pub(crate) oid: u32,
    pub(crate) name: &'a str,
    pub(crate) is_array: bool,
}

/// The binary form of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Int2,
    Int4,
    Int8,
    Uuid,
    Text,
    Bytes,
    Json,
    Jsonb,
}

impl Form {
    /// The form of a type that every database has.
    pub(crate) const fn built_in(oid: u32) -> Option<Self> {
        Some(match oid {
            21 => Self::Int2,
            23 => Self::Int4,
            20 => Self::Int8,
            2950 => Self::Uuid,
            25 | 1043 => Self::Text,
            17 => Self::Bytes,
            114 => Self::Json,
            3802 => Self::Jsonb,
            _ => return None,
        })
    }
}

impl Form {
    /// The form of a type by its name in the catalogue.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "int2" => Self::Int2,
            "int4" => Self::Int4,
            "int8" => Self::Int8,
            "uuid" => Self::Uuid,
            "text" | "varchar" | "citext" => Self::Text,
            "bytea" => Self::Bytes,
            "json" => Self::Json,
            "jsonb" => Self::Jsonb,
            _ => return None,
        })
    }
}

impl ColumnType<'_> {
    /// The form of a value, or of an array's elements.
    pub(crate) fn form(&self, in_array: bool) -> Option<Form> {
        let extension = || {
            self.name
                .eq_ignore_ascii_case("citext")
                .then_some(Form::Text)
        };
        let form = Form::built_in(self.oid).or_else(extension);
        form.filter(|_| self.is_array == in_array)
    }

    pub(crate) fn error(&self, column: &'static str, problem: impl Into<String>) -> ColumnError {
        let array = if self.is_array { "[]" } else { "" };
        ColumnError {
            column,
            found: self.name.to_ascii_lowercase() + array,
            problem: problem.into(),
        }
    }
}

/// A value that a statement binds.
pub(crate) enum Value<'a, R: Record> {
    Name(&'a str),
    Payload(&'a [u8]),
    Headers(&'a str),
    Key(&'a Key),
    Ids(&'a [R::Id]),
    Names(&'a [&'a str]),
    Payloads(&'a [&'a [u8]]),
    HeadersOfEach(&'a [String]),
    Marks(i64),
}

/// What a batch insert binds, and which of its texts the database's columns need.
pub(crate) struct Batch<'a> {
    names: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    headers: Vec<String>,
}

impl<'a> Batch<'a> {
    pub(crate) fn of<R: Record>(messages: &'a [OutgoingMessage<'_>]) -> Self {
        let headers = R::SPEC.headers_column();
        let headers = headers.map(|_| messages.iter().map(|msg| encode_headers(msg.headers())));
        Self {
            names: messages.iter().map(OutgoingMessage::name).collect(),
            payloads: messages.iter().map(OutgoingMessage::payload).collect(),
            headers: headers.into_iter().flatten().collect(),
        }
    }

    pub(crate) fn values<R: Record>(&self) -> Vec<Value<'_, R>> {
        let mut values = vec![Value::Names(&self.names), Value::Payloads(&self.payloads)];
        if R::SPEC.headers_column().is_some() {
            values.push(Value::HeadersOfEach(&self.headers));
        }
        values
    }

    /// The text for columns of these types. `None`: ids of this type come from no sequence.
    pub(crate) fn text<R: Record>(
        id: ColumnType<'_>,
        headers: Option<ColumnType<'_>>,
    ) -> Option<&'static str> {
        let form = id.form(false);
        if !matches!(form, Some(Form::Int2 | Form::Int4 | Form::Int8)) {
            return None;
        }
        Some(match headers.and_then(|headers| headers.form(false)) {
            Some(Form::Json) => Sql::<R>::INSERT_BATCH_JSON,
            Some(Form::Jsonb) => Sql::<R>::INSERT_BATCH_JSONB,
            _ => Sql::<R>::INSERT_BATCH,
        })
    }
}

/// Refuses ids that the rows of a batch did not get: a trigger of the table makes its own.
pub(crate) fn has_row<R: Record>(id: ColumnType<'_>, has_row: bool) -> Result<(), ColumnError> {
    let problem = "and the table gave a row another one than its sequence did";
    has_row
        .then_some(())
        .ok_or_else(|| id.error(R::SPEC.id_column(), problem))
}

/// What a mark of the records `of` binds.
pub(crate) fn marking<R: Record>(of: Value<'_, R>, consumer: Consumer) -> Vec<Value<'_, R>> {
    match R::SPEC.marks_column() {
        Some(_) => vec![
            of,
            Value::Marks(consumer.mark()),
            Value::Marks(consumer.all()),
        ],
        None => vec![of],
    }
}

impl<R: Record> Value<'_, R> {
    /// Writes the value as a parameter of the type `ty`.
    pub(crate) fn write(
        &self,
        ty: ColumnType<'_>,
        out: &mut impl BufMut,
    ) -> Result<(), ColumnError> {
        match (self, ty.form(false)) {
            (Self::Key(key), _) => key.write(out),
            (Self::Ids(ids), _) => {
                let keys = id::keys::<R>(ty, ids)?;
                write_array(&keys, ty.oid, out, Key::write);
            }
            // The batch insert says that its arrays are of `text` and `bytea`.
            (Self::Names(names), _) => {
                write_array(names, ty.oid, out, |name, out| {
                    out.put_slice(name.as_bytes());
                });
            }
            (Self::Payloads(payloads), _) => {
                write_array(payloads, ty.oid, out, |payload, out| out.put_slice(payload));
            }
            (Self::HeadersOfEach(texts), _) => {
                write_array(texts, ty.oid, out, |text, out| {
                    out.put_slice(text.as_bytes());
                });
            }
            (Self::Marks(marks), form) => {
                let needs = || {
                    ty.error(
                        R::SPEC.marks_column().unwrap_or_default(),
                        "and marks need integer or bigint",
                    )
                };
                let marks = match form {
                    Some(Form::Int4) => i32::try_from(*marks).ok().map(Key::Int4),
                    Some(Form::Int8) => Some(Key::Int8(*marks)),
                    _ => None,
                };
                marks.ok_or_else(needs)?.write(out);
            }
            (Self::Name(name), Some(Form::Text)) => out.put_slice(name.as_bytes()),
            (Self::Payload(payload), Some(Form::Bytes)) => out.put_slice(payload),
            (Self::Headers(text), Some(Form::Text | Form::Json)) => out.put_slice(text.as_bytes()),
            (Self::Headers(text), Some(Form::Jsonb)) => {
                const VERSION: u8 = 1;
                out.put_u8(VERSION);
                out.put_slice(text.as_bytes());
            }
            (Self::Name(_), _) => {
                let needs = "and a message's name needs text";
                return Err(ty.error(R::SPEC.name_column(), needs));
            }
            (Self::Payload(_), _) => {
                let needs = "and a message's bytes need bytea";
                return Err(ty.error(R::SPEC.payload_column(), needs));
            }
            (Self::Headers(_), _) => {
                let column = R::SPEC.headers_column().unwrap_or_default();
                let needs = "and a message's headers need text, json or jsonb";
                return Err(ty.error(column, needs));
            }
        }
        Ok(())
    }
}

/// Without what it holds: a driver may log its parameters.
impl<R: Record> Debug for Value<'_, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name(_) => "Name",
            Self::Payload(_) => "Payload",
            Self::Headers(_) => "Headers",
            Self::Key(_) => "Key",
            Self::Ids(_) => "Ids",
            Self::Names(_) => "Names",
            Self::Payloads(_) => "Payloads",
            Self::HeadersOfEach(_) => "HeadersOfEach",
            Self::Marks(_) => "Marks",
        })
    }
}

fn write_array<T>(
    elements: &[T],
    element_type: u32,
    out: &mut impl BufMut,
    write: impl Fn(&T, &mut Vec<u8>),
) {
    const DIMENSIONS: i32 = 1;
    const NULLS: i32 = 0;
    const FIRST: i32 = 1;
    out.put_i32(DIMENSIONS);
    out.put_i32(NULLS);
    out.put_u32(element_type);
    out.put_i32(length(elements.len()));
    out.put_i32(FIRST);
    let mut bytes = Vec::new();
    for element in elements {
        bytes.clear();
        write(element, &mut bytes);
        out.put_i32(length(bytes.len()));
        out.put_slice(&bytes);
    }
}

/// A length as the protocol has it. What is longer fits no message, which fails on its own.
fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// The payload of a row.
pub(crate) fn payload<R: Record>(
    ty: ColumnType<'_>,
    payload: Option<Vec<u8>>,
) -> Result<Vec<u8>, ColumnError> {
    payload.ok_or_else(|| ty.error(R::SPEC.payload_column(), "and the row's is NULL"))
}
