//! `prepared`: what is listed, and how it is ended.

use serde_json::json;
use thermocline::{CfOptions, Db, TxnOptions};

use crate::support::Store;

#[test]
fn prepared_transactions_are_listed_committed_and_rolled_back() {
    let store = Store::new();
    let options = store.options();
    let db = Db::open(store.path(), options).unwrap();
    let log = db.column_family("log", CfOptions::default()).unwrap();
    for name in ["one", "two\t2"] {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.put(name, "v").unwrap();
        txn.put_cf(&log, name, "v").unwrap();
        txn.delete_cf(&log, [name, "!"].concat()).unwrap();
        drop(txn.prepare(name).unwrap());
    }
    drop((log, db));
    let list = store.run(&["prepared", "DB"]);
    let line =
        |name: &str, bytes: &str| format!("{name}\t3 changes\t3 claims\t{bytes}\tdefault, log\n");
    let expected = [line("one", "83 B"), line("two\\t2", "95 B")].concat();
    assert_eq!(
        (list.code, list.out.as_str()),
        (0, &*expected),
        "{}",
        list.err
    );
    let key = |family: &str, key: &str| json!({"family": family, "key": key, "written": true});
    let keys = [key("default", "one"), key("log", "one"), key("log", "one!")];
    let one = json!({"name": "one", "changes": 3, "claims": 3, "bytes": 83,
                     "families": ["default", "log"], "keys": keys});
    let stat = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(stat["prepared"][0], one);
    let stat = store.run(&["stat", "DB"]).out;
    assert!(stat.contains("Prepared transactions"), "{stat}");
    assert!(stat.contains("  one\t3 changes"), "{stat}");
    let keys = "    nobody else changes one in default, one in log, one! in log\n";
    assert!(stat.contains(keys), "{stat}");
    let refused = store.run(&["put", "DB", "one", "w"]);
    assert_eq!(refused.code, 1);
    assert!(refused.is_one_sentence_naming("'one'"), "{}", refused.err);
    let ended = store.run(&["prepared", "DB", "--rollback", "74776f0932", "--hex"]);
    assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{}", ended.err);
    let list = store.run(&["prepared", "DB", "--json"]).json();
    assert_eq!(list, json!({"prepared": [one], "count": 1}));
    let ended = store.run(&["prepared", "DB", "--commit", "one", "--json"]);
    assert_eq!(ended.json(), json!({"ok": true}));
    assert_eq!(store.run(&["get", "DB", "one", "--cf", "log"]).out, "v\n");
    assert_eq!(store.run(&["get", "DB", "two\t2"]).code, 1);
    let again = store.run(&["prepared", "DB", "--commit", "one"]);
    assert_eq!(again.code, 1);
    assert!(
        again.is_one_sentence_naming("no prepared transaction 'one'"),
        "{}",
        again.err
    );
    let stat = store.run(&["stat", "DB"]).out;
    assert!(!stat.contains("Prepared"), "{stat}");
}
