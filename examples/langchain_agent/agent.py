"""A chain of LangChain: a prompt and a model, which is a scripted one here."""

import itertools

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.prompts import ChatPromptTemplate

prompt = ChatPromptTemplate.from_template("Tell me about {topic}, briefly.")
model = GenericFakeChatModel(messages=itertools.cycle(["There is much to tell."]))

agent = prompt | model
