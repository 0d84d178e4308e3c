//! The statements of a record, on a map.

use ruststream::OutgoingMessage;

use super::{Memory, MemoryConnection, MemoryError, MemoryRow, Write};
use crate::{
    ColumnDescription, ColumnRole, Consumer, IndexDescription, OpenIds, OpenRecord, OpenRecords,
    Record, Statements, Stored, StoredMessage, TableDescription, encode_headers,
};

impl<R: Record> Statements<R> for Memory {
    async fn insert(
        conn: &mut MemoryConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<R::Id, MemoryError> {
        let mut table = conn.database.table();
        table.visible()?;
        if table.refused.as_deref() == Some(msg.payload()) {
            return Err(MemoryError::RowRefused);
        }
        let (number, id) = table.next_id::<R>()?;
        drop(table);
        let row = MemoryRow {
            id: id.to_string(),
            name: msg.name().to_owned(),
            payload: Some(msg.payload().to_vec()),
            headers: R::SPEC
                .headers_column()
                .map(|_| encode_headers(msg.headers())),
            ..MemoryRow::default()
        };
        conn.write(Write::Insert(number, row))?;
        Ok(id)
    }

    async fn fetch(conn: &mut MemoryConnection, id: &R::Id) -> Result<Option<Stored>, MemoryError> {
        let found = conn.read::<R, _>(std::slice::from_ref(id), |_, row| row.stored())?;
        Ok(found.into_iter().next())
    }

    async fn mark(
        conn: &mut MemoryConnection,
        id: &R::Id,
        consumer: Consumer,
    ) -> Result<bool, MemoryError> {
        let ids = std::slice::from_ref(id);
        let marked = <Self as Statements<R>>::mark_batch(conn, ids, consumer).await?;
        Ok(marked > 0)
    }

    async fn fetch_batch(
        conn: &mut MemoryConnection,
        ids: &[R::Id],
    ) -> Result<Vec<(R::Id, Stored)>, MemoryError> {
        let found = conn.read::<R, _>(ids, |_, row| (row.id.parse(), row.stored()))?;
        let found = found.into_iter();
        found
            .map(|(id, stored)| Ok((id.map_err(|_| MemoryError::Column("id"))?, stored)))
            .collect()
    }

    async fn mark_batch(
        conn: &mut MemoryConnection,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> Result<u64, MemoryError> {
        let open = conn.read::<R, _>(ids, |number, row| (!row.processed).then_some(number))?;
        let mut marked = 0;
        for number in open.into_iter().flatten() {
            conn.write(match R::SPEC.processed_at_column() {
                Some(_) => Write::Mark(number, consumer),
                None => Write::Delete(number),
            })?;
            marked += 1;
        }
        Ok(marked)
    }

    async fn open_ids(
        conn: &mut MemoryConnection,
        name: &str,
    ) -> Result<OpenIds<R::Id, MemoryError>, MemoryError> {
        conn.outside()?;
        let mut ids = OpenIds::new();
        let table = conn.database.table();
        for row in table.visible()?.values() {
            if row.name == name && !row.processed {
                ids.push(row.id.parse().map_err(|_| MemoryError::Column("id")));
            }
        }
        Ok(ids)
    }

    async fn open_sizes(
        conn: &mut MemoryConnection,
        ids: &[R::Id],
    ) -> Result<Vec<(R::Id, u64)>, MemoryError> {
        let open = conn.open::<R>(ids)?.into_iter();
        open.map(|row| {
            let payload = row.payload.map_or(0, |payload| payload.len());
            let headers = row.headers.map_or(0, |headers| headers.len());
            let id = row.id.parse().map_err(|_| MemoryError::Column("id"))?;
            Ok((id, (payload + headers) as u64))
        })
        .collect()
    }

    async fn open_records(
        conn: &mut MemoryConnection,
        ids: &[R::Id],
    ) -> Result<OpenRecords<R::Id, MemoryError>, MemoryError> {
        let open = conn.open::<R>(ids)?.into_iter();
        open.map(|row| {
            Ok(OpenRecord {
                id: row.id.parse().map_err(|_| MemoryError::Column("id"))?,
                message: match row.payload {
                    Some(payload) => Ok(StoredMessage {
                        payload,
                        headers: row.headers,
                    }),
                    None => Err(MemoryError::Column("payload")),
                },
            })
        })
        .collect()
    }

    async fn describe(
        conn: &mut MemoryConnection,
    ) -> Result<Option<TableDescription>, MemoryError> {
        if conn.database.table().hidden {
            return Ok(None);
        }
        let spec = R::SPEC;
        let roles = [
            Some(spec.id_column()),
            Some(spec.name_column()),
            Some(spec.payload_column()),
        ];
        let columns = roles.into_iter().chain([
            spec.headers_column(),
            spec.processed_at_column(),
            spec.marks_column(),
        ]);
        let columns = columns.flatten().map(|name| ColumnDescription {
            name: name.to_owned(),
            data_type: "any".to_owned(),
        });
        let index = |columns: &[&str]| IndexDescription {
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            condition: spec.processed_at_column().map(str::to_owned),
        };
        Ok(Some(TableDescription {
            columns: columns.collect(),
            indexes: vec![index(&[spec.id_column()]), index(&[spec.name_column()])],
        }))
    }

    fn fits(_role: ColumnRole, _data_type: &str) -> Result<(), &'static str> {
        Ok(())
    }
}
