//! Receipts in the metadata of calls and in the dynamic metadata of responses.

use prost_types::value::Kind;
use tonic::{Code, Request};

use super::{Client, RateLimitDescriptor, RateLimitResponse, Server};
use super::{cost, each, on, refund, request};

const LIMIT: &str = "9/day fixed-window-per-key";

fn user() -> RateLimitDescriptor {
    on([("user", "1")])
}

/// Calls the service with these entries as metadata of the call.
async fn ask(
    client: &mut Client,
    descriptors: &[RateLimitDescriptor],
    metadata: &[(&'static str, &str)],
) -> Result<RateLimitResponse, tonic::Status> {
    let mut asked = Request::new(request(descriptors.to_vec()));
    for (name, value) in metadata {
        asked.metadata_mut().append(*name, value.parse().unwrap());
    }
    client.send(asked).await
}

/// The receipts of each descriptor.
fn receipts(answer: &RateLimitResponse) -> Vec<Vec<String>> {
    let metadata = answer.dynamic_metadata.as_ref().unwrap();
    let list = |value: &prost_types::Value| match &value.kind {
        Some(Kind::ListValue(list)) => list.values.clone(),
        other => panic!("{other:?} is no list"),
    };
    let text = |value: &prost_types::Value| match &value.kind {
        Some(Kind::StringValue(text)) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let each = list(&metadata.fields["receipts"]);
    each.iter().map(|own| list(own).iter().map(text).collect()).collect()
}

const ASKS: &[(&str, &str)] = &[("tollgate-receipts", "true")];

#[tokio::test]
async fn a_call_gets_receipts_if_it_asks_for_them_and_refunds_by_them() {
    let server = Server::start(vec![each("user", LIMIT), each("path", LIMIT)]).await;
    let mut client = server.client().await;
    assert!(client.ask([user()]).await.dynamic_metadata.is_none());
    let path = || on([("path", "/secret")]);
    let both = [cost(2, user()), path(), on([("other", "x")])];
    let answer = ask(&mut client, &both, ASKS).await.unwrap();
    assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
    let of_each = receipts(&answer);
    let counts: Vec<usize> = of_each.iter().map(Vec::len).collect();
    assert_eq!(counts, [1, 1, 0]);
    let receipt = &of_each[0][0][..];
    let given = [("tollgate-receipt", receipt)];

    let back = |hits| [refund(hits, user())];
    let answer = ask(&mut client, &back(1), &given).await.unwrap();
    assert_eq!(answer.statuses[0].limit_remaining, 7);
    for (descriptors, metadata, why) in [
        (vec![refund(1, path())], receipt, "another limit, key or namespace"),
        (back(3).to_vec(), receipt, "units 3; it charged only 2"),
        (back(1).to_vec(), "AQ", "2 characters; a receipt has 56"),
        (vec![user()], receipt, "only with a single descriptor that has is_negative_hits"),
        ([back(1), back(1)].concat(), receipt, "only with a single descriptor"),
    ] {
        let refused = ask(&mut client, &descriptors, &[("tollgate-receipt", metadata)]).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(why), "{refused:?}");
    }
    assert_eq!(client.left(user()).await, (true, 6), "nothing was refunded");
}

#[tokio::test]
async fn only_hits_that_stay_charged_have_receipts() {
    let rules = vec![each("user", LIMIT), each("path", "1/day fixed-window-per-key")];
    let server = Server::start(rules).await;
    let mut client = server.client().await;
    let path = || on([("path", "/")]);
    let passed = ask(&mut client, &[user(), user(), path()], ASKS).await.unwrap();
    let counts: Vec<usize> = receipts(&passed).iter().map(Vec::len).collect();
    assert_eq!(counts, [1, 0, 1], "two descriptors on one counter are one hit");
    let denied = ask(&mut client, &[user(), path()], ASKS).await.unwrap();
    assert_eq!(receipts(&denied), [Vec::<String>::new(), Vec::new()]);
}
