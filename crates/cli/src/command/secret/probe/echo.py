# SPDX-License-Identifier: Apache-2.0
# Sends one request with a canary and says where the answer repeats it, and in which encoding.
# Runs inside the probe's own sandbox; all that it knows is its argument.
import base64, gzip, html, http.client, json, ssl, sys, urllib.parse, zlib

LINES_MAX, BODY_BYTES_MAX = 40, 4 << 20


def forms(canary):
    raw = canary.encode()
    yield 'as it is', canary
    yield 'reversed', canary[::-1]
    yield 'in hex', raw.hex()
    yield 'in hex', raw.hex().upper()
    yield 'percent-encoded', ''.join('%%%02x' % b for b in raw)
    yield 'percent-encoded', ''.join('%%%02X' % b for b in raw)
    yield 'percent-encoded', urllib.parse.quote(canary, safe='')
    yield 'escaped as JSON', ''.join('\\u%04x' % b for b in raw)
    yield 'escaped as HTML', ''.join('&#%d;' % b for b in raw)
    yield 'escaped as HTML', html.escape(canary)
    for front in range(3):
        for encode in base64.b64encode, base64.urlsafe_b64encode:
            whole = encode(b'x' * front + raw).decode()
            # What depends on the canary alone, whatever stands before and behind it.
            first = -(-front * 8 // 6)
            yield 'in base64', whole[first:(front + len(raw)) * 8 // 6]
    yield 'in part', canary[-12:]


def echoes(place, text, canary):
    for how, form in forms(canary):
        if form in text:
            return ['%s, %s' % (place, how)]
    return []


def unpacked(body, coding):
    if coding in ('gzip', 'x-gzip'):
        return gzip.decompress(body)
    if coding == 'deflate':
        return zlib.decompress(body)
    return body


def refusal(body):
    # A far end that looks like a gate is not probed, which is no word for it.
    try:
        said = json.loads(body)
        return set(said) == {'code', 'layer', 'rule', 'hint'} and repr(said['code'])
    except (ValueError, TypeError):
        return None


def main():
    asked = json.loads(sys.argv[1])
    host, port = asked['host'], asked['port']
    if asked['scheme'] == 'https':
        context = ssl.create_default_context()
        far = http.client.HTTPSConnection(host, port, timeout=20, context=context)
    else:
        far = http.client.HTTPConnection(host, port, timeout=20)
    fields = {'Accept-Encoding': 'identity', 'User-Agent': 'torno-probe'}
    fields.update(asked['fields'])
    body = asked['body'].encode() if asked['body'] else None
    try:
        far.request(asked['method'], asked['target'], body=body, headers=fields)
        answer = far.getresponse()
        said = answer.read(BODY_BYTES_MAX)
        said = unpacked(said, (answer.getheader('content-encoding') or '').lower())
    except (OSError, http.client.HTTPException, zlib.error) as error:
        print('  not probed: %s' % type(error).__name__)
        return 2
    refused = refusal(said)
    if refused:
        print('  not probed: refused here (%s)' % refused[:64])
        return 2
    canary = asked['canary']
    found = echoes('the status line', answer.reason or '', canary)
    for name, value in answer.getheaders():
        found += echoes('header %s' % name[:64], value + ' ' + name, canary)
    found += echoes('the body', said.decode('latin-1'), canary)
    print('  answered %d' % answer.status)
    for line in found[:LINES_MAX]:
        print('  ECHO in %s' % ''.join(c if ' ' <= c <= '~' else '?' for c in line))
    if not found:
        print('  no echo')
    return 1 if found else 0


sys.exit(main())
