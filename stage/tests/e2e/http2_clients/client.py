# A client of gRPC inside: unary, one stream, both streams at once, and what is refused.
import os, queue
import grpc

channel = grpc.secure_channel('rpc.torno.test:443', grpc.ssl_channel_credentials())
metadata = (('authorization', 'Bearer ' + os.environ['RPC_TOKEN']),)
options = dict(metadata=metadata, timeout=30)

for number in range(3):
    call = channel.unary_unary('/torno.Open/Unary')
    answer, call = call.with_call(b'hello %d' % number, **options)
    print(answer.decode(), dict(call.initial_metadata())['x-echo'] == metadata[0][1],
          dict(call.trailing_metadata())['x-echo-late'] == metadata[0][1])

print(b', '.join(channel.unary_stream('/torno.Open/Stream')(b'', **options)).decode())

asked = queue.Queue()
answers = channel.stream_stream('/torno.Open/Bidi')(iter(asked.get, None), **options)
for number in range(5):
    # The next is asked only when the last was answered.
    asked.put(b'ask %d' % number)
    print(next(answers).decode())
asked.put(None)
print('left', list(answers), answers.code().name)

try:
    echo = channel.unary_unary('/torno.Open/Echo')(b'', **options)
    print('echo', echo)
except grpc.RpcError as error:
    print('echo', error.code().name, error.details())

try:
    channel.unary_unary('/torno.Secret/Unary')(b'', **options)
except grpc.RpcError as error:
    print('refused', error.code().name, error.details())
