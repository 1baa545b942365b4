# Many requests at once on one connection; one of them is refused, and one gives back what it got.
import asyncio, os
import httpx

url = 'https://api.torno.test'
fields = {'Authorization': 'Bearer ' + os.environ['API_TOKEN']}


async def main():
    async with httpx.AsyncClient(http2=True, headers=fields, timeout=30) as client:
        paths = ['/v1/me'] * 20 + ['/not/granted', '/echo?as=raw', '/echo?as=header']
        answers = await asyncio.gather(*(client.get(url + path) for path in paths))
        print({answer.http_version for answer in answers})
        print(sum('"agent"' in answer.text for answer in answers))
        print(answers[20].status_code, answers[20].json()['code'].endswith('_not_granted'))
        print(fields['Authorization'] in answers[21].text)
        print(answers[22].headers['x-echo'] == fields['Authorization'])
        posted = await client.post(url + '/echo?as=raw', content=b'x' * 200_000)
        print(posted.http_version, posted.text.count('x') >= 200_000)


asyncio.run(main())
