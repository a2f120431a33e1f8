//! Values that other programs have written.

use tollgate::ErrorKind;

use crate::client::{admitted, fails_by_the_store, key_of, limiter, patient, run};
use crate::server::Server;

#[test]
fn a_foreign_value_is_an_error_until_it_is_removed() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limiter = limiter(&store, "5/hour");
        assert_eq!(admitted(&limiter, "key", 1).await, 1);
        let name = key_of(&store, "5/hour", "key");
        assert_eq!(server.says(&format!("set {name} 0 0 2\r\n17")), "STORED");
        for result in
            [limiter.hit("key").await, limiter.peek("key").await, limiter.set("key", 1).await]
        {
            let error = fails_by_the_store(result);
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
        assert_eq!(server.says(&format!("delete {name}")), "DELETED");
        assert_eq!(admitted(&limiter, "key", 7).await, 5);
    });
}
