//! How an id is bound and read: by its text, which is what travels in its header as well.
//!
//! So an id needs no traits of a driver, and every column takes it that holds what its text says.

use std::any::{TypeId, type_name};
use std::fmt::{self, Display, Formatter};

use bytes::BufMut;
use outbox_core::Record;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::ColumnError;
use crate::value::{ColumnType, Form};

/// What the column of an id holds.
#[derive(PartialEq)]
pub(crate) enum Key {
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Uuid(Uuid),
    Text(String),
}

impl Key {
    /// `None`: it is of none of the forms that hold ids, or cannot hold this one.
    fn of_text(text: String, form: Form) -> Option<Self> {
        match form {
            Form::Int2 => text.parse().ok().map(Self::Int2),
            Form::Int4 => text.parse().ok().map(Self::Int4),
            Form::Int8 => text.parse().ok().map(Self::Int8),
            Form::Uuid => text.parse().ok().map(Self::Uuid),
            // Postgres keeps no NUL in a text.
            Form::Text => (!text.contains('\0')).then_some(Self::Text(text)),
            Form::Bytes | Form::Json | Form::Jsonb => None,
        }
    }

    fn of_bytes(bytes: &[u8], form: Form) -> Option<Self> {
        let int2 = || bytes.try_into().ok().map(i16::from_be_bytes);
        let int4 = || bytes.try_into().ok().map(i32::from_be_bytes);
        let int8 = || bytes.try_into().ok().map(i64::from_be_bytes);
        let uuid = || bytes.try_into().ok().map(Uuid::from_bytes);
        let text = || String::from_utf8(bytes.to_vec()).ok();
        match form {
            Form::Int2 => int2().map(Self::Int2),
            Form::Int4 => int4().map(Self::Int4),
            Form::Int8 => int8().map(Self::Int8),
            Form::Uuid => uuid().map(Self::Uuid),
            Form::Text => text().map(Self::Text),
            Form::Bytes | Form::Json | Form::Jsonb => None,
        }
    }

    pub(crate) fn write(&self, out: &mut impl BufMut) {
        match self {
            Self::Int2(id) => out.put_i16(*id),
            Self::Int4(id) => out.put_i32(*id),
            Self::Int8(id) => out.put_i64(*id),
            Self::Uuid(id) => out.put_slice(id.as_bytes()),
            Self::Text(id) => out.put_slice(id.as_bytes()),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int2(id) => id.fmt(f),
            Self::Int4(id) => id.fmt(f),
            Self::Int8(id) => id.fmt(f),
            Self::Uuid(id) => id.fmt(f),
            Self::Text(id) => id.fmt(f),
        }
    }
}

/// What a column of the type `ty` holds of an id. `None`: it cannot hold it, so no row has it.
pub(crate) fn key<R: Record>(ty: ColumnType<'_>, id: &R::Id) -> Result<Option<Key>, ColumnError> {
    Ok(Key::of_text(id.to_string(), form::<R>(ty, false)?))
}

/// What a column whose arrays are of the type `ty` holds of those ids that it can hold.
pub(crate) fn keys<R: Record>(ty: ColumnType<'_>, ids: &[R::Id]) -> Result<Vec<Key>, ColumnError> {
    let form = form::<R>(ty, true)?;
    let keys = ids.iter().map(|id| Key::of_text(id.to_string(), form));
    Ok(keys.flatten().collect())
}

/// The form of a type that holds ids.
fn form<R: Record>(ty: ColumnType<'_>, in_array: bool) -> Result<Form, ColumnError> {
    let form = ty.form(in_array);
    let form = form.filter(|form| !matches!(form, Form::Bytes | Form::Json | Form::Jsonb));
    let needs = "and an id needs int8, int4, int2, uuid or text";
    form.ok_or_else(|| ty.error(R::SPEC.id_column(), needs))
}

/// Reads an id of a row, which the id's own text must find again.
pub(crate) fn read<R: Record>(
    ty: ColumnType<'_>,
    bytes: Option<&[u8]>,
) -> Result<R::Id, ColumnError> {
    let column = R::SPEC.id_column();
    let form = form::<R>(ty, false)?;
    let bytes = bytes.ok_or_else(|| ty.error(column, "and the row's is NULL"))?;
    let key = Key::of_bytes(bytes, form);
    let key = key.ok_or_else(|| ty.error(column, "and the row's is not of it"))?;
    let text = key.to_string();
    let found_again = |id: &R::Id| Key::of_text(id.to_string(), form).as_ref() == Some(&key);
    text.parse().ok().filter(found_again).ok_or_else(|| {
        let id_type = type_name::<R::Id>();
        let problem = format!("and its `{text}` is no id of the type `{id_type}`");
        ty.error(column, problem)
    })
}

/// What the id's column must hold for the record's struct to be read from its table, and what that
/// is called. `None`: a type that is not listed says nothing of its column.
pub(crate) fn listed<R: Record>() -> Option<(&'static [Form], &'static str)> {
    let listed: [(_, &[Form], _); 6] = [
        (TypeId::of::<i16>(), &[Form::Int2], "int2"),
        (TypeId::of::<i32>(), &[Form::Int4], "int4"),
        (TypeId::of::<i64>(), &[Form::Int8], "int8"),
        (TypeId::of::<Uuid>(), &[Form::Uuid], "uuid"),
        (
            TypeId::of::<Hyphenated>(),
            &[Form::Text, Form::Uuid],
            "text or uuid",
        ),
        (TypeId::of::<String>(), &[Form::Text], "text"),
    ];
    let id = TypeId::of::<R::Id>();
    let found = listed.into_iter().find(|(of, ..)| *of == id);
    found.map(|(_, forms, needed)| (forms, needed))
}

/// Refuses a table whose ids are not of the record's type: the outbox could do with their text,
/// but the record's struct cannot be read from that table.
pub(crate) fn check<R: Record>(ty: ColumnType<'_>) -> Result<(), ColumnError> {
    let form = ty.form(false);
    match listed::<R>() {
        Some((forms, needed)) if !form.is_some_and(|form| forms.contains(&form)) => {
            let id_type = type_name::<R::Id>();
            let problem = format!("and an id of the type `{id_type}` needs {needed}");
            Err(ty.error(R::SPEC.id_column(), problem))
        }
        _ => Ok(()),
    }
}
