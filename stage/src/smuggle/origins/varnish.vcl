vcl 4.1;
backend far { .host = "127.0.0.1"; .port = "@BACKEND@"; }
sub vcl_recv { return (pass); }
