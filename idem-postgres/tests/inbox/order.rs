//! What is late, which is another question than what came twice.

use crate::rig::Rig;

/// A consumer that keeps the newest address; whether the event was a first one, and whether it was the newest.
async fn move_in(rig: &Rig, version: i64) -> (bool, bool) {
    let mut tx = rig.begin().await;
    let first = rig.once(&mut tx, &format!("moved-{version}")).await.expect("an answer");
    let mut newest = false;
    if first {
        let sql = "UPDATE customer SET address = $2, version = $1 WHERE version < $1";
        let address = format!("address {version}");
        let done = sqlx::query(sql).bind(version).bind(address).execute(&mut *tx).await.expect("an update");
        newest = done.rows_affected() == 1;
    }
    tx.commit().await.expect("it commits");
    (first, newest)
}

#[tokio::test]
async fn i09_a_late_event_is_refused_by_its_version_and_marked_as_taken() {
    let rig = Rig::new().await;
    rig.sql("CREATE TABLE customer (address text, version bigint)").await;
    rig.sql("INSERT INTO customer VALUES ('', 0)").await;
    assert_eq!(move_in(&rig, 1).await, (true, true));
    assert_eq!(move_in(&rig, 3).await, (true, true));
    assert_eq!(move_in(&rig, 2).await, (true, false), "late, and no duplicate");
    assert_eq!(move_in(&rig, 2).await, (false, false), "and done with");
    assert_eq!(move_in(&rig, 3).await, (false, false), "a duplicate, and not late");
    assert_eq!(rig.count("SELECT version FROM customer WHERE address = 'address 3'").await, 3);
}
