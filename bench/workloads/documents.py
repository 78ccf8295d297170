# SPDX-License-Identifier: MIT
"""usage: documents.py FILE - regular expressions, dictionaries, sorting and JSON over a list of documents."""
import json
import re
import sys

with open(sys.argv[1], encoding='utf-8') as source:
    documents = json.load(source)
word = re.compile(r'\b([a-z]{3,5})(\w*)\b')
mail = re.compile(r'(\w+)@(\w+)\.org')
tails = {}
for document in documents:
    for found in word.finditer(document['text']):
        tails.setdefault(found.group(1), []).append(found.group(2))
    document['user']['mail'] = mail.sub(lambda m: m.group(2) + '!' + m.group(1), document['user']['mail'])
    document['user']['tags'] = sorted(tag.upper() for tag in document['user']['tags'])
text = json.dumps(documents, sort_keys=True, indent=1)
print(len(tails), sum(len(v) for v in tails.values()), len(text), len(json.loads(text)))
