/** A reporter that prints the counts in the form that `cargo xtask test` adds up. */
export default async function* tally(source) {
  const counts = { passed: 0, failed: 0, ignored: 0 };
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    if (data.details?.type === "suite") continue;
    if (data.skip !== undefined) counts.ignored += 1;
    else if (type === "test:pass") counts.passed += 1;
    else counts.failed += 1;
  }
  const verdict = counts.failed > 0 ? "FAILED" : "ok";
  yield `test result: ${verdict}. ${counts.passed} passed; ${counts.failed} failed; ${counts.ignored} ignored\n`;
}
