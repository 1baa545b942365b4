# The far end of gRPC: the library's own server, with TLS. Writes down the credential that it got.
import sys, time
from concurrent import futures
import grpc

directory = sys.argv[1]


def note(context):
    found = dict(context.invocation_metadata()).get('authorization', 'none')
    with open(directory + '/seen', 'a') as seen:
        seen.write(found + '\n')
    context.send_initial_metadata((('x-echo', found),))
    context.set_trailing_metadata((('x-echo-late', found),))
    return found.encode()


def unary(request, context):
    note(context)
    return b'unary:' + request


def stream(request, context):
    note(context)
    for number in range(5):
        yield b'part %d' % number
        time.sleep(0.02)


def bidi(requests, context):
    note(context)
    for request in requests:
        yield b'back:' + request


def echo(request, context):
    return note(context)


methods = {
    'Unary': grpc.unary_unary_rpc_method_handler(unary),
    'Stream': grpc.unary_stream_rpc_method_handler(stream),
    'Bidi': grpc.stream_stream_rpc_method_handler(bidi),
    'Echo': grpc.unary_unary_rpc_method_handler(echo),
}
server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
for service in ('torno.Open', 'torno.Secret'):
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
read = lambda name: open(directory + '/' + name, 'rb').read()
credentials = grpc.ssl_server_credentials([(read('key.pem'), read('chain.pem'))])
port = server.add_secure_port('127.0.0.1:0', credentials)
server.start()
print(port, flush=True)
server.wait_for_termination()
