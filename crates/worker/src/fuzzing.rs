//! Doors for the fuzz targets, built for them alone.

use gristmill_shm::{Record, Words};

use crate::callee::ParentList;
use crate::run::{read_definition, read_task};

/// Splits a record as a task and as a definition; checks that the parts are what was there.
pub fn task<W: Words>(record: &Record<'_, W>) {
    let mut body = Vec::new();
    if let Ok(task) = read_task(record, 0, &mut body) {
        assert_eq!(body.len() - task.payload_at, task.frame.payload_size as usize);
        let list = ParentList { bytes: &body[..task.payload_at], count: task.frame.parent_count };
        assert_eq!(list.iter().count(), usize::from(list.count()), "they were checked");
    }
    if read_definition(record, &mut body).is_ok() {
        assert!(body.len() + 8 <= record.body_size() as usize);
    }
}

/// Goes through parents that changed after they were checked.
pub fn parents(bytes: &[u8], count: u16) {
    let list = ParentList { bytes, count };
    let size: usize = list.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(size <= bytes.len());
}
