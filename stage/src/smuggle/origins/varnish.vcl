vcl 4.1;
backend far { .host = "127.0.0.1"; .port = "@BACKEND@"; }
sub vcl_recv { return (pass); }
# What is built in takes the body from a GET, which is no reading of its bytes.
sub vcl_backend_fetch { return (fetch); }
