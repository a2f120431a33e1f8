//! The binary `tollgate`.

fn main() -> std::process::ExitCode {
    tollgate_server::cli::main()
}
